// Package age opens data keys with post-quantum age identities.
package age

import (
	"context"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"penstock.dev/engine/internal/datakeys"
)

// Open runs the operation age.open.
func Open(ctx context.Context, data []byte) ([]byte, error) {
	return datakeys.Open(ctx, data, load)
}

// load reads identities, one a line.
func load(data []byte) (datakeys.Reader, []string) {
	var identities []age.Identity
	var findings []string
	for place, line := range strings.Fields(string(data)) {
		identity, err := age.ParseHybridIdentity(line)
		if err != nil {
			findings = append(findings, fmt.Sprintf("number %d of its post-quantum identities cannot be read", place+1))
			continue
		}
		identities = append(identities, identity)
	}
	if len(identities) == 0 {
		return nil, findings
	}
	return func(message string) (io.Reader, error) {
		return age.Decrypt(armor.NewReader(strings.NewReader(strings.TrimSpace(message))), identities...)
	}, findings
}
