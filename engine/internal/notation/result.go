package notation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/notaryproject/notation-core-go/revocation"
	revocationresult "github.com/notaryproject/notation-core-go/revocation/result"
	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/tspclient-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// What can refuse a signature besides the validations of a policy.
const (
	stepAttributes = "attributes" // it has critical attributes that nobody understands
	stepPayload    = "payload"    // it is for another artifact
	stepPlugin     = "plugin"     // it demands a plugin
)

// Result is what became of the envelope.
type Result struct {
	// Failure names the step that refused the signature and says why; no failure, and no needs, is a
	// signature that the policy lets pass.
	Failure *Failed `json:"failure,omitempty"`
	// Validations that were run, in order. Those that failed and are only logged are here too.
	Validations []Validation `json:"validations"`
	Signer      *Signer      `json:"signer,omitempty"`
	Revocation  []Status     `json:"revocation"`
	// Needs are requests that must be made before the result counts.
	Needs []Need `json:"needs"`
	// FreshUntil is when the result may change by itself.
	FreshUntil *time.Time `json:"freshUntil,omitempty"`
}

// Failed is a step and why it failed.
type Failed struct {
	Step    string `json:"step"`
	Message string `json:"message"`
}

// Validation is one of the policy's.
type Validation struct {
	Type   string `json:"type"`
	Action string `json:"action"`
	Error  string `json:"error,omitempty"`
}

// Signer is who signed, as far as the envelope says; it counts only where authenticity was validated.
type Signer struct {
	Subject     string     `json:"subject"`
	Issuer      string     `json:"issuer"`
	Fingerprint string     `json:"fingerprint"` // SHA-256 of the certificate, hex
	Scheme      string     `json:"scheme"`
	SigningTime time.Time  `json:"signingTime"`
	Expiry      *time.Time `json:"expiry,omitempty"`
	// Timestamp is the time in the countersignature; it counts if the policy had that verified.
	Timestamp *time.Time `json:"timestamp,omitempty"`
}

// Status is what a revocation check found about a certificate.
type Status struct {
	Subject string   `json:"subject"`
	Status  string   `json:"status"` // ok, nonRevokable, unknown, revoked
	Errors  []string `json:"errors,omitempty"`
}

var statuses = map[revocationresult.Result]string{
	revocationresult.ResultOK:           "ok",
	revocationresult.ResultNonRevokable: "nonRevokable",
	revocationresult.ResultUnknown:      "unknown",
	revocationresult.ResultRevoked:      "revoked",
}

func describe(outcome *notation.VerificationOutcome, err error, statement *trustpolicy.TrustPolicy) *Result {
	result := &Result{Validations: []Validation{}, Revocation: []Status{}, Needs: []Need{}}
	for _, found := range outcome.VerificationResults {
		validation := Validation{Type: string(found.Type), Action: string(found.Action)}
		if found.Error != nil {
			validation.Error = found.Error.Error()
		}
		result.Validations = append(result.Validations, validation)
	}
	if err != nil {
		result.Failure = &Failed{Step: result.failedStep(outcome), Message: err.Error()}
	}
	if outcome.EnvelopeContent == nil {
		return result
	}
	result.Signer = signerOf(&outcome.EnvelopeContent.SignerInfo)
	result.FreshUntil = expiryOf(&outcome.EnvelopeContent.SignerInfo, statement)
	if result.Failure != nil && result.Failure.Step == stepPayload {
		result.Failure.Message = "it was made for " + targetOf(outcome.EnvelopeContent.Payload.Content)
	}
	// The specification wants critical attributes understood; notation-go leaves that to plugins.
	if unknown := criticalAttribute(&outcome.EnvelopeContent.SignerInfo); unknown != "" && result.Failure == nil {
		told := fmt.Sprintf("its critical attribute %q is not understood", unknown)
		result.Failure = &Failed{Step: stepAttributes, Message: told}
	}
	return result
}

func (r *Result) failedStep(outcome *notation.VerificationOutcome) string {
	for _, validation := range r.Validations {
		if validation.Error != "" && validation.Action == string(trustpolicy.ActionEnforce) {
			return validation.Type
		}
	}
	// Without the last validations it was the plugin's turn, which comes after integrity.
	if len(outcome.VerificationResults) < 2 {
		return stepPlugin
	}
	return stepPayload
}

func criticalAttribute(info *signature.SignerInfo) string {
	for _, attribute := range info.SignedAttributes.ExtendedAttributes {
		if attribute.Critical {
			return fmt.Sprint(attribute.Key)
		}
	}
	return ""
}

func targetOf(payload []byte) string {
	var content struct {
		Target ocispec.Descriptor `json:"targetArtifact"`
	}
	if err := json.Unmarshal(payload, &content); err != nil || content.Target.Digest == "" {
		return "no artifact"
	}
	return fmt.Sprintf("%s (%s, %d bytes)", content.Target.Digest, content.Target.MediaType, content.Target.Size)
}

func signerOf(info *signature.SignerInfo) *Signer {
	leaf := info.CertificateChain[0]
	digest := sha256.Sum256(leaf.Raw)
	signer := &Signer{
		Subject:     leaf.Subject.String(),
		Issuer:      leaf.Issuer.String(),
		Fingerprint: hex.EncodeToString(digest[:]),
		Scheme:      string(info.SignedAttributes.SigningScheme),
		SigningTime: info.SignedAttributes.SigningTime.UTC(),
		Timestamp:   timestampOf(info),
	}
	if expiry := info.SignedAttributes.Expiry; !expiry.IsZero() {
		expiry = expiry.UTC()
		signer.Expiry = &expiry
	}
	return signer
}

func timestampOf(info *signature.SignerInfo) *time.Time {
	if len(info.UnsignedAttributes.TimestampSignature) == 0 {
		return nil
	}
	token, err := tspclient.ParseSignedToken(info.UnsignedAttributes.TimestampSignature)
	if err != nil {
		return nil
	}
	content, err := token.Info()
	if err != nil {
		return nil
	}
	timestamp, err := content.Validate(info.Signature)
	if err != nil {
		return nil
	}
	at := timestamp.Value.UTC()
	return &at
}

// expiryOf returns the first moment at which time alone ends what was proven.
func expiryOf(info *signature.SignerInfo, statement *trustpolicy.TrustPolicy) *time.Time {
	var first time.Time
	add := func(end time.Time) {
		if !end.IsZero() && end.After(time.Now()) && (first.IsZero() || end.Before(first)) {
			first = end.UTC()
		}
	}
	add(info.SignedAttributes.Expiry)
	timestamped := info.SignedAttributes.SigningScheme == signature.SigningSchemeX509SigningAuthority
	for _, store := range statement.TrustStores {
		timestamped = timestamped || strings.HasPrefix(store, "tsa:") &&
			statement.SignatureVerification.VerifyTimestamp != trustpolicy.OptionAfterCertExpiry
	}
	if !timestamped {
		for _, certificate := range info.CertificateChain {
			add(certificate.NotAfter)
		}
	}
	if first.IsZero() {
		return nil
	}
	return &first
}

// addRevocation tells what was found about each certificate.
func (r *Result) addRevocation(watches ...*watch) {
	for _, watch := range watches {
		r.Revocation = append(r.Revocation, watch.found...)
	}
}

// addNetwork asks for what is missing, unless the chain that names the servers is nobody's we trust.
func (r *Result) addNetwork(network *network) {
	for _, validation := range r.Validations {
		if validation.Type == string(trustpolicy.TypeAuthenticity) && validation.Error == "" {
			r.Needs = append(r.Needs, network.pending()...)
		}
	}
	if until := network.until; !until.IsZero() && (r.FreshUntil == nil || until.Before(*r.FreshUntil)) {
		until = until.UTC()
		r.FreshUntil = &until
	}
}

// ValidateContext checks a chain (revocation.Validator).
func (w *watch) ValidateContext(ctx context.Context, options revocation.ValidateContextOptions) (
	[]*revocationresult.CertRevocationResult, error) {
	results, err := w.inner.ValidateContext(ctx, options)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		status := Status{Subject: options.CertChain[i].Subject.String(), Status: statuses[result.Result]}
		for _, server := range result.ServerResults {
			if server.Error != nil && !errors.Is(server.Error, errPending) {
				told := fmt.Sprintf("%s %s: %v", server.RevocationMethod, server.Server, server.Error)
				status.Errors = append(status.Errors, strings.TrimSpace(told))
			}
		}
		w.found = append(w.found, status)
	}
	return results, nil
}
