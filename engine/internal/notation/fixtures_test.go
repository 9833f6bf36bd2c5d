package notation

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/ocsp"
)

const (
	repository = "registry.example.com/app"
	ocspURL    = "http://ocsp.example.com"
	crlURL     = "http://crl.example.com/list.crl"
)

var artifact = ocispec.Descriptor{
	MediaType: ocispec.MediaTypeImageManifest,
	Digest:    digest.FromString("the artifact"),
	Size:      12,
}

// authority is a root and a certificate for signing code.
type authority struct {
	root    *x509.Certificate
	rootKey crypto.Signer
	leaf    *x509.Certificate
	key     crypto.Signer
}

type option func(*x509.Certificate)

func withOCSP(leaf *x509.Certificate) { leaf.OCSPServer = []string{ocspURL} }
func withCRL(leaf *x509.Certificate)  { leaf.CRLDistributionPoints = []string{crlURL} }
func expiredAt(end time.Time) option {
	return func(leaf *x509.Certificate) { leaf.NotBefore, leaf.NotAfter = end.Add(-time.Hour), end }
}

func newAuthority(t testing.TB, options ...option) *authority {
	t.Helper()
	made := &authority{rootKey: newKey(t), key: newKey(t)}
	root := template("Test Root", 1)
	root.NotBefore, root.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(48*time.Hour)
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	made.root = issue(t, root, root, made.rootKey.Public(), made.rootKey)
	leaf := template("Test Signer", 2)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	for _, change := range options {
		change(leaf)
	}
	made.leaf = issue(t, leaf, made.root, made.key.Public(), made.rootKey)
	return made
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject: pkix.Name{
			CommonName: name, Organization: []string{"Example"}, Province: []string{"WA"}, Country: []string{"US"},
		},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
	}
}

func issue(t testing.TB, certificate, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, certificate, parent, public, by)
	must(t, err)
	issued, err := x509.ParseCertificate(der)
	must(t, err)
	return issued
}

// envelope is one signature.
type envelope struct {
	mediaType string
	content   []byte
}

// sign makes an envelope; change may make it a strange one.
func (a *authority) sign(t testing.TB, mediaType string, change func(*signature.SignRequest)) envelope {
	t.Helper()
	payload, err := json.Marshal(map[string]any{"targetArtifact": artifact})
	must(t, err)
	signer, err := signature.NewLocalSigner([]*x509.Certificate{a.leaf, a.root}, a.key)
	must(t, err)
	request := &signature.SignRequest{
		Payload:       signature.Payload{ContentType: "application/vnd.cncf.notary.payload.v1+json", Content: payload},
		Signer:        signer,
		SigningTime:   a.leaf.NotBefore.Add(time.Minute),
		SigningScheme: signature.SigningSchemeX509,
	}
	if change != nil {
		change(request)
	}
	made, err := signature.NewEnvelope(mediaType)
	must(t, err)
	content, err := made.Sign(request)
	must(t, err)
	return envelope{mediaType: mediaType, content: content}
}

func (a *authority) answerOCSP(t testing.TB, status int) []byte {
	t.Helper()
	answer, err := ocsp.CreateResponse(a.root, a.root, ocsp.Response{
		Status: status, SerialNumber: a.leaf.SerialNumber, RevokedAt: time.Now().Add(-time.Minute),
		ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(10 * time.Minute),
	}, a.rootKey)
	must(t, err)
	return answer
}

func (a *authority) list(t testing.TB, revoked ...*big.Int) []byte {
	t.Helper()
	list := &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(20 * time.Minute),
	}
	for _, serial := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: serial, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.root, a.rootKey)
	must(t, err)
	return der
}

// asked is a request with a policy of the level.
func (a *authority) asked(level string, signed envelope) *Request {
	statement := trustpolicy.TrustPolicy{
		Name:                  "all",
		RegistryScopes:        []string{"*"},
		SignatureVerification: trustpolicy.SignatureVerification{VerificationLevel: level},
	}
	if level == "skip" {
		statement.RegistryScopes = []string{repository}
	} else {
		statement.TrustStores, statement.TrustedIdentities = []string{"ca:test"}, []string{"*"}
	}
	return &Request{
		Policy:       trustpolicy.Document{Version: "1.0", TrustPolicies: []trustpolicy.TrustPolicy{statement}},
		Certificates: map[string][]Certificate{"ca": {{Name: "root.crt", DER: a.root.Raw}}},
		Reference:    repository + "@" + artifact.Digest.String(),
		Descriptor:   artifact,
		MediaType:    signed.mediaType,
		Envelope:     signed.content,
	}
}

func verify(t testing.TB, request *Request) *Result {
	t.Helper()
	result, err := verifyRaw(request)
	must(t, err)
	return result
}

func (r *Result) passed() bool {
	return r.Failure == nil && len(r.Needs) == 0 &&
		!slices.ContainsFunc(r.Validations, func(v Validation) bool { return v.Error != "" })
}

func verifyRaw(request *Request) (*Result, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var result Result
	raw, err := Verify(context.Background(), data)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	return &result, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var formats = []string{jws.MediaTypeEnvelope, cose.MediaTypeEnvelope}
