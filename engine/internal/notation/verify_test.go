package notation

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"golang.org/x/crypto/ocsp"

	"penstock.dev/engine/internal/call"
)

func TestSignaturesByTheTrustedAuthorityPass(t *testing.T) {
	authority := newAuthority(t)
	for _, format := range formats {
		result := verify(t, authority.asked("strict", authority.sign(t, format, nil)))
		if !result.passed() {
			t.Errorf("%s: %+v", format, result)
		}
		if want := "CN=Test Signer,O=Example,ST=WA,C=US"; result.Signer.Subject != want {
			t.Errorf("%s: signed by %q, want %q", format, result.Signer.Subject, want)
		}
		if result.FreshUntil == nil || !result.FreshUntil.Equal(authority.leaf.NotAfter) {
			t.Errorf("%s: fresh until %v, want the end of the certificate", format, result.FreshUntil)
		}
	}
}

func TestWhatIsWrongIsRefusedWithItsStep(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	late := newAuthority(t, expiredAt(time.Now().Add(-time.Hour)))
	expired := func(request *signature.SignRequest) { request.Expiry = request.SigningTime.Add(time.Second) }
	elsewhere := func(request *signature.SignRequest) {
		request.Payload.Content = []byte(`{"targetArtifact":{"mediaType":"text/plain","digest":"sha256:` + strings.Repeat("0", 64) + `","size":1}}`)
	}
	noPayload := func(request *signature.SignRequest) { request.Payload.Content = []byte(`{}`) }
	attribute := func(key string) func(*signature.SignRequest) {
		return func(request *signature.SignRequest) {
			request.ExtendedSignedAttributes = []signature.Attribute{{Key: key, Critical: true, Value: "x"}}
		}
	}
	for _, format := range formats {
		for name, test := range map[string]struct {
			by     *authority
			change func(*signature.SignRequest)
			trust  *authority
			step   string
		}{
			"another authority":   {by: other, trust: ours, step: "authenticity"},
			"expired":             {by: ours, change: expired, trust: ours, step: "expiry"},
			"expired certificate": {by: late, trust: late, step: "authenticTimestamp"},
			"another artifact":    {by: ours, change: elsewhere, trust: ours, step: "payload"},
			"no artifact":         {by: ours, change: noPayload, trust: ours, step: "payload"},
			"unknown attribute":   {by: ours, change: attribute("com.example.rule"), trust: ours, step: "attributes"},
			"plugin":              {by: ours, change: attribute("io.cncf.notary.verificationPlugin"), trust: ours, step: "plugin"},
		} {
			result := verify(t, test.trust.asked("strict", test.by.sign(t, format, test.change)))

			if failure := result.Failure; failure == nil || failure.Step != test.step {
				t.Errorf("%s, %s: %+v, want a failure of %s", name, format, failure, test.step)
			}
		}
	}
}

func TestAnotherIdentityIsRefused(t *testing.T) {
	authority := newAuthority(t)
	request := authority.asked("strict", authority.sign(t, jws.MediaTypeEnvelope, nil))
	request.Policy.TrustPolicies[0].TrustedIdentities = []string{"x509.subject: C=US, ST=WA, O=Another"}

	result := verify(t, request)

	if failure := result.Failure; failure == nil || failure.Step != "authenticity" {
		t.Errorf("%+v", failure)
	}
}

func TestDamagedEnvelopesAreRefused(t *testing.T) {
	authority := newAuthority(t)
	for _, format := range formats {
		whole := authority.sign(t, format, nil)
		for at := 0; at < len(whole.content); at += len(whole.content)/60 + 1 {
			flipped := bytes.Clone(whole.content)
			flipped[at] ^= 1
			for _, content := range [][]byte{whole.content[:at], flipped} {
				result := verify(t, authority.asked("strict", envelope{format, content}))

				// Names of the unprotected header are not signed; who signed what is.
				if result.Failure == nil && result.Signer.Subject != "CN=Test Signer,O=Example,ST=WA,C=US" {
					t.Errorf("%s: damage at %d passes: %+v", format, at, result)
				}
				if result.Failure == nil && len(content) < len(whole.content) {
					t.Errorf("%s: %d bytes of an envelope pass", format, at)
				}
			}
		}
	}
}

func TestWhatIsSignedCannotBeChanged(t *testing.T) {
	authority := newAuthority(t)
	var whole map[string]any
	must(t, json.Unmarshal(authority.sign(t, jws.MediaTypeEnvelope, nil).content, &whole))
	for _, part := range []string{"payload", "protected", "signature"} {
		changed := maps.Clone(whole)
		text := []byte(whole[part].(string))
		text[len(text)/2] ^= 1
		changed[part] = string(text)
		content, err := json.Marshal(changed)
		must(t, err)

		result := verify(t, authority.asked("audit", envelope{jws.MediaTypeEnvelope, content}))

		if result.Failure == nil || result.Failure.Step != "integrity" {
			t.Errorf("%s: %+v", part, result)
		}
	}
}

func TestBombsAreRefused(t *testing.T) {
	authority := newAuthority(t)
	deepJSON := strings.Repeat("[", 100_000)
	payload := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"a":`, 100_000)))
	for name, bomb := range map[string]envelope{
		"deep JSON":       {jws.MediaTypeEnvelope, []byte(deepJSON)},
		"deep header":     {jws.MediaTypeEnvelope, []byte(`{"protected":"` + payload + `","payload":"e30","signature":"AA"}`)},
		"deep CBOR":       {cose.MediaTypeEnvelope, append([]byte{0xd2}, bytes.Repeat([]byte{0x81}, 100_000)...)},
		"huge CBOR array": {cose.MediaTypeEnvelope, []byte{0xd2, 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		"huge CBOR bytes": {cose.MediaTypeEnvelope, []byte{0xd2, 0x84, 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		"empty":           {mediaType: cose.MediaTypeEnvelope},
		"another format":  {"application/pgp-signature", []byte("x")},
	} {
		result := verify(t, authority.asked("audit", bomb))

		if result.Failure == nil || result.Failure.Step != "integrity" {
			t.Errorf("%s: %+v", name, result)
		}
	}
}

func TestFailuresThatAreOnlyLoggedAreTold(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)

	result := verify(t, authority.asked("audit", other.sign(t, jws.MediaTypeEnvelope, nil)))

	if result.Failure != nil || result.passed() {
		t.Errorf("%+v", result)
	}
}

func TestPoliciesAndCertificatesAreChecked(t *testing.T) {
	authority := newAuthority(t)
	for name, test := range map[string]struct {
		change func(*Request)
		code   string
	}{
		"level":       {func(r *Request) { r.Policy.TrustPolicies[0].SignatureVerification.VerificationLevel = "lax" }, "InvalidPolicy"},
		"scope":       {func(r *Request) { r.Policy.TrustPolicies[0].RegistryScopes[0] = "registry.example.com/other" }, "NoApplicablePolicy"},
		"skip":        {func(r *Request) { *r = *authority.asked("skip", envelope{}) }, "Skipped"},
		"certificate": {func(r *Request) { r.Certificates["ca"][0].DER = []byte("x") }, "InvalidCertificate"},
		"not a CA":    {func(r *Request) { r.Certificates["ca"][0].DER = authority.leaf.Raw }, "InvalidCertificate"},
		"no TSA root": {func(r *Request) { r.Certificates["tsa"] = []Certificate{{DER: authority.leaf.Raw}} }, "InvalidCertificate"},
	} {
		request := authority.asked("strict", authority.sign(t, jws.MediaTypeEnvelope, nil))
		test.change(request)

		_, err := verifyRaw(request)

		var failure *call.Failure
		if !errors.As(err, &failure) || failure.Code != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
}

func TestACancelledCallSaysSo(t *testing.T) {
	authority := newAuthority(t)
	data, err := json.Marshal(authority.asked("strict", authority.sign(t, jws.MediaTypeEnvelope, nil)))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	_, err = Verify(ctx, data)

	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRevocationIsAskedForAndDecides(t *testing.T) {
	authority := newAuthority(t, withOCSP, withCRL)
	signed := authority.sign(t, cose.MediaTypeEnvelope, nil)
	for name, test := range map[string]struct {
		answers []func(Need) Fetched // one a round
		passes  bool
		status  string
	}{
		"good":                {[]func(Need) Fetched{ok(authority.answerOCSP(t, ocsp.Good))}, true, "ok"},
		"revoked":             {[]func(Need) Fetched{ok(authority.answerOCSP(t, ocsp.Revoked))}, false, "revoked"},
		"unknown, not listed": {[]func(Need) Fetched{ok(authority.answerOCSP(t, ocsp.Unknown)), ok(authority.list(t))}, true, "ok"},
		"down, not listed":    {[]func(Need) Fetched{down, ok(authority.list(t))}, true, "ok"},
		"down, listed":        {[]func(Need) Fetched{down, ok(authority.list(t, authority.leaf.SerialNumber))}, false, "revoked"},
		"both down":           {[]func(Need) Fetched{down, down}, false, "unknown"},
		"another's answer":    {[]func(Need) Fetched{ok(newAuthority(t).answerOCSP(t, ocsp.Good)), ok(newAuthority(t).list(t))}, false, "unknown"},
		"nonsense":            {[]func(Need) Fetched{ok([]byte("<html>")), ok([]byte("<html>"))}, false, "unknown"},
	} {
		request := authority.asked("strict", signed)
		for round, answer := range test.answers {
			result := verify(t, request)
			if result.passed() || len(result.Needs) != 1 {
				t.Fatalf("%s, round %d: %+v, want one need", name, round, result)
			}
			request.Fetched = append(request.Fetched, answer(result.Needs[0]))
		}

		result := verify(t, request)

		if result.passed() != test.passes || result.Revocation[0].Status != test.status || len(result.Needs) > 0 {
			t.Errorf("%s: %+v, want passed %v, %s", name, result, test.passes, test.status)
		}
	}
}

func TestAnswersOfServersBoundFreshness(t *testing.T) {
	for name, test := range map[string]struct {
		option option
		answer func(*authority) []byte
		most   time.Duration
	}{
		"status": {withOCSP, func(a *authority) []byte { return a.answerOCSP(t, ocsp.Good) }, 10 * time.Minute},
		"list":   {withCRL, func(a *authority) []byte { return a.list(t) }, 20 * time.Minute},
	} {
		authority := newAuthority(t, test.option)
		request := authority.asked("strict", authority.sign(t, jws.MediaTypeEnvelope, nil))
		request.Fetched = []Fetched{ok(test.answer(authority))(verify(t, request).Needs[0])}

		result := verify(t, request)

		if left := time.Until(*result.FreshUntil); !result.passed() || left > test.most {
			t.Errorf("%s: fresh for %v, the answer for %v", name, left, test.most)
		}
	}
}

func TestServersThatAStrangerNamesAreNotAsked(t *testing.T) {
	authority, stranger := newAuthority(t), newAuthority(t, withOCSP, withCRL)

	result := verify(t, authority.asked("audit", stranger.sign(t, jws.MediaTypeEnvelope, nil)))

	if len(result.Needs) > 0 {
		t.Errorf("%+v", result.Needs)
	}
}

func ok(content []byte) func(Need) Fetched {
	return func(need Need) Fetched {
		return Fetched{Method: need.Method, URL: need.URL, Body: need.Body, Status: http.StatusOK, Content: content}
	}
}

func down(need Need) Fetched {
	return Fetched{Method: need.Method, URL: need.URL, Body: need.Body, Error: "connection refused"}
}
