package age

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"penstock.dev/engine/internal/datakeys"
)

func TestOnlyItsOwnIdentityOpensADataKey(t *testing.T) {
	dataKey := bytes.Repeat([]byte{7}, 32)
	own, other := identity(t), identity(t)
	for _, c := range []struct {
		keys    string
		opens   bool
		skipped int
	}{
		{own.String(), true, 0},
		{other.String() + "\n" + own.String(), true, 0},
		{"AGE-SECRET-KEY-PQ-1NONSENSE\n" + own.String(), true, 1},
		{other.String(), false, 0},
		{"AGE-SECRET-KEY-PQ-1NONSENSE", false, 1},
	} {
		request, err := json.Marshal(datakeys.Request{
			Keys:     []datakeys.Entry{{Name: "a.agekey", Data: []byte(c.keys)}},
			Messages: []string{encrypted(t, dataKey, own.Recipient())},
		})
		if err != nil {
			t.Fatal(err)
		}

		answer, err := Open(context.Background(), request)
		if err != nil {
			t.Fatal(err)
		}

		var result datakeys.Result
		if err := json.Unmarshal(answer, &result); err != nil {
			t.Fatal(err)
		}
		opened := result.Opened[0] != nil && bytes.Equal(result.Opened[0].Data, dataKey)
		if opened != c.opens || len(result.Skipped) != c.skipped {
			t.Errorf("opened %v, skipped %+v", opened, result.Skipped)
		}
	}
}

func identity(t *testing.T) *age.HybridIdentity {
	t.Helper()
	made, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func encrypted(t *testing.T, content []byte, recipient age.Recipient) string {
	t.Helper()
	var text bytes.Buffer
	armoured := armor.NewWriter(&text)
	writer, err := age.Encrypt(armoured, recipient)
	if err == nil {
		_, err = writer.Write(content)
	}
	if err == nil {
		err = writer.Close()
	}
	if err == nil {
		err = armoured.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}
