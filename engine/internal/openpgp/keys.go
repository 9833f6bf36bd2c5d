package openpgp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	unreadable = "it is not an OpenPGP key"
	damaged    = "one of its keys cannot be read"
	public     = "key %s has no secret part: export it with gpg --export-secret-keys"
	protected  = "key %s has a passphrase, and nobody to ask for it: export it without one"
	tooMany    = "it has more than %d keys and subkeys: others are not used"
)

// mostKeys is how many keys of a file are used, subkeys included. Where a message does not name its
// recipient, each of them is tried on it.
const mostKeys = 400

var (
	armoured  = []byte("-----BEGIN PGP ")
	errNoKeys = errors.New("no key was read")
)

// keys are entities with secret keys. Which of them opens a message is decided by the message alone:
// neither expiry nor revocation hides what was encrypted before.
type keys struct{ openpgp.EntityList }

// DecryptionKeys returns what to try where a message does not name its recipient.
func (k keys) DecryptionKeys() []openpgp.Key {
	found := k.EntityList.DecryptionKeys()
	for _, entity := range k.EntityList {
		if usable(entity.PrivateKey) {
			found = append(found, openpgp.Key{Entity: entity, PublicKey: entity.PrimaryKey, PrivateKey: entity.PrivateKey})
		}
	}
	return found
}

// read returns the keys that can open something, and says why others cannot.
func read(data []byte) (keys, []string) {
	var ring keys
	entities, findings := readBlocks(data)
	for _, entity := range entities {
		if finding := ailment(entity); finding != "" {
			findings = append(findings, finding)
		} else {
			ring.EntityList = append(ring.EntityList, entity)
		}
	}
	return ring, findings
}

// readBlocks returns the keys of each block, up to mostKeys; a damaged one hides no other.
func readBlocks(data []byte) (entities openpgp.EntityList, findings []string) {
	left := mostKeys
	if !bytes.Contains(data, armoured) {
		return readKeys(bytes.NewReader(data), &left)
	}
	for _, block := range bytes.Split(data, armoured)[1:] {
		decoded, err := armor.Decode(io.MultiReader(bytes.NewReader(armoured), bytes.NewReader(block)))
		if err != nil {
			findings = append(findings, unreadable)
			continue
		}
		found, said := readKeys(decoded.Body, &left)
		entities, findings = append(entities, found...), append(findings, said...)
		if left < 0 {
			break
		}
	}
	return entities, findings
}

// readKeys takes what it reads from left, which is negative once there were too many.
func readKeys(from io.Reader, left *int) (entities openpgp.EntityList, findings []string) {
	packets := packet.NewReader(from)
	for {
		entity, err := openpgp.ReadEntity(packets)
		if err == nil {
			*left -= 1 + len(entity.Subkeys)
			if *left < 0 {
				return entities, append(findings, fmt.Sprintf(tooMany, mostKeys))
			}
			entities = append(entities, entity)
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		findings = append(findings, damaged)
		if nextKey(packets) != nil {
			break
		}
	}
	if len(entities) == 0 {
		return nil, []string{unreadable}
	}
	return entities, findings
}

// nextKey goes to the next primary key. The library's own way passes over secret ones.
func nextKey(packets *packet.Reader) error {
	for {
		found, err := packets.Next()
		switch key := found.(type) {
		case *packet.PublicKey:
			if !key.IsSubkey {
				packets.Unread(key)
				return nil
			}
		case *packet.PrivateKey:
			if !key.IsSubkey {
				packets.Unread(key)
				return nil
			}
		}
		if err != nil && !skippable(err) {
			return errNoKeys
		}
	}
}

func skippable(err error) bool {
	var unsupported pgperrors.UnsupportedError
	var structural pgperrors.StructuralError
	return errors.As(err, &unsupported) || errors.As(err, &structural)
}

// ailment says why a key opens nothing; empty if it may open something.
func ailment(entity *openpgp.Entity) string {
	secrets := []*packet.PrivateKey{entity.PrivateKey}
	for _, subkey := range entity.Subkeys {
		secrets = append(secrets, subkey.PrivateKey)
	}
	locked := false
	for _, secret := range secrets {
		if usable(secret) {
			return ""
		}
		locked = locked || secret != nil && secret.Encrypted && !secret.Dummy()
	}
	name := strings.ToUpper(fmt.Sprintf("%x", entity.PrimaryKey.Fingerprint))
	if locked {
		return fmt.Sprintf(protected, name)
	}
	return fmt.Sprintf(public, name)
}

func usable(secret *packet.PrivateKey) bool {
	return secret != nil && !secret.Encrypted && !secret.Dummy()
}
