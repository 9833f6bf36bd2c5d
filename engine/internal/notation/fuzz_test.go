package notation

import (
	"testing"

	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
)

// FuzzEnvelopes looks for envelopes that end the process, or pass without our authority's signature.
func FuzzEnvelopes(f *testing.F) {
	authority, trusted := newAuthority(f), newAuthority(f)
	for _, format := range formats {
		f.Add(format == cose.MediaTypeEnvelope, authority.sign(f, format, nil).content)
	}
	f.Fuzz(func(t *testing.T, isCOSE bool, content []byte) {
		format := jws.MediaTypeEnvelope
		if isCOSE {
			format = cose.MediaTypeEnvelope
		}

		result := verify(t, trusted.asked("strict", envelope{format, content}))

		if result.Failure == nil {
			t.Errorf("an envelope of a stranger passes: %+v", result)
		}
	})
}
