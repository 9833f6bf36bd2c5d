// Package notation judges Notary Project signatures by a trust policy.
//
// Nothing here dials: whatever revocation checks would ask a server for is taken from the request, or
// reported as needed, so that the caller fetches it by its own rules and asks again.
package notation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/notaryproject/notation-core-go/revocation"
	"github.com/notaryproject/notation-core-go/revocation/crl"
	"github.com/notaryproject/notation-core-go/revocation/purpose"
	_ "github.com/notaryproject/notation-core-go/signature/cose" // an envelope format
	_ "github.com/notaryproject/notation-core-go/signature/jws"  // the other
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"penstock.dev/engine/internal/call"
)

// Request asks whether one envelope signs an artifact as its policy demands.
type Request struct {
	Policy trustpolicy.Document `json:"policy"`
	// Certificates by the type of the trust stores that hold them: ca, signingAuthority, tsa.
	Certificates map[string][]Certificate `json:"certificates"`
	// Reference is registry/repository@digest: registryScopes are compared with it.
	Reference string `json:"reference"`
	// Descriptor is the artifact's, as it was resolved: a signature of another is refused.
	Descriptor ocispec.Descriptor `json:"descriptor"`
	// MediaType of the envelope: JWS or COSE.
	MediaType string `json:"mediaType"`
	Envelope  []byte `json:"envelope"`
	// Fetched answers what earlier calls needed.
	Fetched []Fetched `json:"fetched"`
}

// Certificate is a trusted one.
type Certificate struct {
	Name string `json:"name"` // where it comes from, for messages
	DER  []byte `json:"der"`
}

// Verify runs the operation notation.verify.
func Verify(ctx context.Context, data []byte) ([]byte, error) {
	var request Request
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, fmt.Errorf("malformed request: %w", err)
	}
	statement, err := applicable(&request)
	if err != nil {
		return nil, err
	}
	trusted, err := readStores(request.Certificates)
	if err != nil {
		return nil, err
	}
	result, err := judge(ctx, &request, statement, trusted)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // what it cut short must not look like a result
	}
	return json.Marshal(result)
}

// applicable finds the statement that the artifact falls under.
func applicable(request *Request) (*trustpolicy.TrustPolicy, error) {
	if err := request.Policy.Validate(); err != nil {
		return nil, &call.Failure{Code: "InvalidPolicy", Message: err.Error()}
	}
	statement, err := request.Policy.GetApplicableTrustPolicy(request.Reference)
	if err != nil {
		return nil, &call.Failure{Code: "NoApplicablePolicy", Message: err.Error()}
	}
	// To the library a skipped signature is like one that passed.
	if statement.SignatureVerification.VerificationLevel == trustpolicy.LevelSkip.Name {
		return nil, &call.Failure{Code: "Skipped", Message: fmt.Sprintf("statement %q skips verification", statement.Name)}
	}
	return statement, nil
}

func judge(ctx context.Context, request *Request, statement *trustpolicy.TrustPolicy, trusted stores) (*Result, error) {
	network := newNetwork(request.Fetched)
	signing, err := newWatch(network, purpose.CodeSigning)
	if err != nil {
		return nil, err
	}
	timestamping, err := newWatch(network, purpose.Timestamping)
	if err != nil {
		return nil, err
	}
	// Without a plugin manager a signature that demands a plugin is refused, and nothing is run.
	judging, err := verifier.NewWithOptions(&request.Policy, trusted, nil, verifier.VerifierOptions{
		RevocationCodeSigningValidator:  signing,
		RevocationTimestampingValidator: timestamping,
	})
	if err != nil {
		return nil, err
	}
	outcome, err := judging.Verify(ctx, request.Descriptor, request.Envelope, notation.VerifierVerifyOptions{
		ArtifactReference:  request.Reference,
		SignatureMediaType: request.MediaType,
	})
	if outcome == nil {
		return nil, fmt.Errorf("the signature could not be judged: %w", err)
	}
	result := describe(outcome, err, statement)
	result.addRevocation(signing, timestamping)
	result.addNetwork(network)
	return result, nil
}

// watch remembers what a revocation check found, certificate by certificate.
type watch struct {
	inner revocation.Validator
	found []Status
}

func newWatch(network *network, use purpose.Purpose) (*watch, error) {
	fetcher, err := crl.NewHTTPFetcher(network.client(kindCRL))
	if err != nil {
		return nil, err
	}
	inner, err := revocation.NewWithOptions(revocation.Options{
		OCSPHTTPClient:   network.client(kindOCSP),
		CRLFetcher:       lists{inner: fetcher, network: network},
		CertChainPurpose: use,
	})
	if err != nil {
		return nil, err
	}
	return &watch{inner: inner}, nil
}
