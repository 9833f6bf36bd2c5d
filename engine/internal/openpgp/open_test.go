package openpgp

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	olderpgp "golang.org/x/crypto/openpgp" //nolint:staticcheck // what SOPS 3.7 wrote with

	"penstock.dev/engine/internal/datakeys"
)

var dataKey = bytes.Repeat([]byte{7}, 32)

func author(t *testing.T, algorithm packet.PublicKeyAlgorithm) *openpgp.Entity {
	t.Helper()
	entity, err := openpgp.NewEntity("author", "", "author@example.org",
		&packet.Config{Algorithm: algorithm, RSABits: 2048, DefaultHash: crypto.SHA256})
	if err != nil {
		t.Fatal(err)
	}
	return entity
}

func exported(t *testing.T, entities ...*openpgp.Entity) []byte {
	t.Helper()
	var binary bytes.Buffer
	for _, entity := range entities {
		if err := entity.SerializePrivate(&binary, nil); err != nil {
			t.Fatal(err)
		}
	}
	return binary.Bytes()
}

func inArmour(t *testing.T, kind string, content []byte) []byte {
	t.Helper()
	var text bytes.Buffer
	writer, err := armor.Encode(&text, kind, nil)
	if err == nil {
		_, err = writer.Write(content)
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(text.Bytes(), '\n')
}

func encrypted(t *testing.T, content []byte, recipients ...*openpgp.Entity) string {
	t.Helper()
	var message bytes.Buffer
	writer, err := openpgp.Encrypt(&message, recipients, nil, nil, nil)
	if err == nil {
		_, err = writer.Write(content)
	}
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(inArmour(t, "PGP MESSAGE", message.Bytes()))
}

func asked(t *testing.T, request datakeys.Request) datakeys.Result {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Open(context.Background(), data)
	if err != nil {
		t.Fatal(err)
	}
	var result datakeys.Result
	if err := json.Unmarshal(answer, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

func entry(data []byte) []datakeys.Entry { return []datakeys.Entry{{Name: "key.asc", Data: data}} }

func requireOpened(t *testing.T, result datakeys.Result) {
	t.Helper()
	for place, opened := range result.Opened {
		if opened == nil || !bytes.Equal(opened.Data, dataKey) {
			t.Fatalf("message %d was not opened: %+v", place, result.Skipped)
		}
	}
}

func requireClosed(t *testing.T, result datakeys.Result) {
	t.Helper()
	if len(result.Opened) != 1 || result.Opened[0] != nil {
		t.Fatalf("it was opened: %+v", result.Opened)
	}
}

func TestMessagesAreOpenedInTheirOrder(t *testing.T) {
	one, two := author(t, packet.PubKeyAlgoEdDSA), author(t, packet.PubKeyAlgoEdDSA)
	stranger := author(t, packet.PubKeyAlgoEdDSA)

	result := asked(t, datakeys.Request{
		Keys:     entry(inArmour(t, openpgp.PrivateKeyType, exported(t, one, two))),
		Messages: []string{encrypted(t, dataKey, two), encrypted(t, dataKey, stranger), encrypted(t, dataKey, one)},
	})

	if result.Opened[0] == nil || result.Opened[1] != nil || result.Opened[2] == nil {
		t.Fatalf("opened %+v", result.Opened)
	}
}

// Some numbers begin with zero bits: the older library wrote headers as if they did not.
func TestMessagesOfTheOlderLibraryAreOpened(t *testing.T) {
	entity := author(t, packet.PubKeyAlgoRSA)
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	recipients, err := olderpgp.ReadKeyRing(&public)
	if err != nil {
		t.Fatal(err)
	}
	request := datakeys.Request{Keys: entry(exported(t, entity))}
	for range 32 {
		var message bytes.Buffer
		writer, err := olderpgp.Encrypt(&message, recipients, nil, &olderpgp.FileHints{IsBinary: true}, nil)
		if err == nil {
			_, err = writer.Write(dataKey)
		}
		if err == nil {
			err = writer.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		request.Messages = append(request.Messages, string(inArmour(t, "PGP MESSAGE", message.Bytes())))
	}

	requireOpened(t, asked(t, request))
}

func TestADamagedKeyHidesNoOther(t *testing.T) {
	good, bad := author(t, packet.PubKeyAlgoEdDSA), author(t, packet.PubKeyAlgoRSA)
	whole, broken := exported(t, good), exported(t, bad)
	broken[len(broken)-20] ^= 0xff // in the binding of its subkey
	begin := inArmour(t, openpgp.PrivateKeyType, broken)
	for name, data := range map[string][]byte{
		"in one ring":       append(bytes.Clone(broken), whole...),
		"in blocks":         append(bytes.Clone(begin), inArmour(t, openpgp.PrivateKeyType, whole)...),
		"in a block cut":    append(bytes.Clone(begin[:300]), append([]byte("\n"), inArmour(t, openpgp.PrivateKeyType, whole)...)...),
		"in an empty block": append([]byte("-----BEGIN PGP "), append([]byte("\n"), inArmour(t, openpgp.PrivateKeyType, whole)...)...),
	} {
		t.Run(name, func(t *testing.T) {
			result := asked(t, datakeys.Request{Keys: entry(data), Messages: []string{encrypted(t, dataKey, good)}})

			requireOpened(t, result)
			if len(result.Skipped) != 1 || result.Skipped[0].Entry != "key.asc" {
				t.Fatalf("skipped %+v", result.Skipped)
			}
		})
	}
}

func TestKeysOfNoUseAreNamed(t *testing.T) {
	entity := author(t, packet.PubKeyAlgoEdDSA)
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		t.Fatal(err)
	}
	locked := author(t, packet.PubKeyAlgoEdDSA)
	if err := locked.EncryptPrivateKeys([]byte("a secret word"), nil); err != nil {
		t.Fatal(err)
	}
	var protected bytes.Buffer
	if err := locked.SerializePrivateWithoutSigning(&protected, nil); err != nil {
		t.Fatal(err)
	}
	for finding, data := range map[string][]byte{
		"has no secret part":       inArmour(t, openpgp.PublicKeyType, public.Bytes()),
		"has a passphrase":         protected.Bytes(),
		"it is not an OpenPGP key": []byte("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nnonsense\n"),
	} {
		result := asked(t, datakeys.Request{Keys: entry(data), Messages: []string{encrypted(t, dataKey, entity)}})

		requireClosed(t, result)
		if len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Finding, finding) {
			t.Errorf("%s: skipped %+v", finding, result.Skipped)
		}
	}
}

func TestWhatIsNoEncryptedDataKeyIsNotOpened(t *testing.T) {
	entity := author(t, packet.PubKeyAlgoEdDSA)
	var clear bytes.Buffer
	literal, err := packet.SerializeLiteral(discarded{&clear}, true, "", 0)
	if err == nil {
		_, err = literal.Write(dataKey)
	}
	if err == nil {
		err = literal.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	whole := encrypted(t, dataKey, entity)
	for name, message := range map[string]string{
		"not encrypted": string(inArmour(t, "PGP MESSAGE", clear.Bytes())),
		"too long":      encrypted(t, bytes.Repeat([]byte{0}, 1<<20), entity),
		"cut":           whole[:len(whole)/2],
		"no message":    "nonsense",
		"empty":         "",
	} {
		t.Run(name, func(t *testing.T) {
			requireClosed(t, asked(t, datakeys.Request{Keys: entry(exported(t, entity)), Messages: []string{message}}))
		})
	}
}

func TestAMalformedRequestIsNotEchoed(t *testing.T) {
	_, err := Open(context.Background(), []byte(`{"keys":"hunter2"`))

	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("it says %v", err)
	}
}

func FuzzKeysAndMessages(f *testing.F) {
	f.Add([]byte("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nxVgE\n"), "-----BEGIN PGP MESSAGE-----\n\nhF4D\n")
	f.Fuzz(func(t *testing.T, key []byte, message string) {
		asked(t, datakeys.Request{Keys: entry(key), Messages: []string{message}})
	})
}

type discarded struct{ *bytes.Buffer }

func (discarded) Close() error { return nil }

func TestFileWithVeryManyKeysIsUsedInPart(t *testing.T) {
	first := author(t, packet.PubKeyAlgoEdDSA)
	last := author(t, packet.PubKeyAlgoEdDSA)
	many := bytes.Repeat(exported(t, first), mostKeys/2)
	messages := []string{encrypted(t, dataKey, first), encrypted(t, dataKey, last)}
	for name, ring := range map[string][]byte{
		"binary":   append(bytes.Clone(many), exported(t, last)...),
		"armoured": append(inArmour(t, "PGP PRIVATE KEY BLOCK", many), inArmour(t, "PGP PRIVATE KEY BLOCK", exported(t, last))...),
	} {
		result := asked(t, datakeys.Request{
			Keys:     []datakeys.Entry{{Name: "all.asc", Data: ring}},
			Messages: messages,
		})
		if result.Opened[0] == nil || result.Opened[1] != nil {
			t.Errorf("%s: opened %v", name, result.Opened)
		}
		if len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Finding, "more than 400 keys and subkeys") {
			t.Errorf("%s: skipped %v", name, result.Skipped)
		}
	}
}
