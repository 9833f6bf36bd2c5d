// Package datakeys opens the data keys of SOPS documents with secret keys that are in the request.
//
// Messages of failures are fixed words and fingerprints, and hold nothing that was read.
package datakeys

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"penstock.dev/engine/internal/call"
)

// longest is more than a data key or a share of one has bytes. A message may hold compressed data,
// and is read no further.
const longest = 256

// Request asks what messages hold.
type Request struct {
	Keys     []Entry  `json:"keys"`
	Messages []string `json:"messages"` // armoured
}

// Entry is one of a Secret, with secret keys.
type Entry struct {
	Name string `json:"name"` // for findings
	Data []byte `json:"data"`
}

// Result is what the messages hold, in their order, and which keys could not be used.
type Result struct {
	Opened  []*Opened `json:"opened"` // null where none of the keys fits
	Skipped []Skipped `json:"skipped"`
}

// Opened is the content of a message.
type Opened struct {
	Data []byte `json:"data"`
}

// Skipped says why a key of an entry is of no use.
type Skipped struct {
	Entry   string `json:"entry"`
	Finding string `json:"finding"`
}

// Reader returns the content of a message; its end proves that nothing was changed.
type Reader func(message string) (io.Reader, error)

// Load reads the keys of an entry, and says why others are of no use. Nil is not a key.
type Load func(entry []byte) (read Reader, findings []string)

// Open runs an operation with keys that load reads.
func Open(ctx context.Context, data []byte, load Load) ([]byte, error) {
	var request Request
	if err := json.Unmarshal(data, &request); err != nil {
		// The text of the error may show a part of a key.
		return nil, &call.Failure{Code: "BadRequest", Message: "malformed request"}
	}
	result := Result{Opened: make([]*Opened, len(request.Messages)), Skipped: []Skipped{}}
	for _, entry := range request.Keys {
		read, findings := load(entry.Data)
		for _, finding := range findings {
			result.Skipped = append(result.Skipped, Skipped{Entry: entry.Name, Finding: finding})
		}
		for place, message := range request.Messages {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if read == nil || result.Opened[place] != nil {
				continue
			}
			// What fails is damaged, or somebody else's.
			if content, err := open(read, message); err == nil {
				result.Opened[place] = &Opened{Data: content}
			}
		}
	}
	return json.Marshal(result)
}

func open(read Reader, message string) ([]byte, error) {
	from, err := read(message)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(from, longest+1))
	if err == nil && len(content) > longest {
		err = errors.New("the message is not a data key")
	}
	return content, err
}
