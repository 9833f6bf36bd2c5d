// Package openpgp opens data keys with OpenPGP secret keys that have no passphrase.
//
// Keys and messages are in the request alone: there is no agent, no key ring on disk and no prompt.
package openpgp

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"penstock.dev/engine/internal/datakeys"
)

// Open runs the operation openpgp.open.
func Open(ctx context.Context, data []byte) ([]byte, error) {
	return datakeys.Open(ctx, data, load)
}

// load reads a key ring: armoured, also several blocks of it, or binary.
func load(data []byte) (datakeys.Reader, []string) {
	ring, findings := read(data)
	if len(ring.EntityList) == 0 {
		return nil, findings
	}
	return ring.open, findings
}

func (k keys) open(message string) (io.Reader, error) {
	block, err := armor.Decode(strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	details, err := openpgp.ReadMessage(block.Body, k, nil, nil)
	if err != nil {
		return nil, err
	}
	if !details.IsEncrypted {
		return nil, errors.New("the message is not encrypted")
	}
	return details.UnverifiedBody, nil
}
