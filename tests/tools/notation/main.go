// Command notation-sign signs with the Notary Project's own SDK: a job as JSON on standard input, the
// envelope (base64) and what it was pushed as on standard output.
//
// With a reference the artifact is signed where it lies, in the registry, as `notation sign` does;
// without one a descriptor is signed. Keys are the caller's, and so is the timestamp authority.
package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	_ "github.com/notaryproject/notation-core-go/signature/cose" // an envelope format
	_ "github.com/notaryproject/notation-core-go/signature/jws"  // the other
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/registry"
	"github.com/notaryproject/notation-go/signer"
	"github.com/notaryproject/tspclient-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
)

const payloadType = "application/vnd.cncf.notary.payload.v1+json"

type job struct {
	Key       string             `json:"key"`   // PKCS #8, PEM
	Chain     string             `json:"chain"` // PEM, the signer's certificate first
	MediaType string             `json:"mediaType"`
	Timestamp *authority         `json:"timestamp"`
	Expiry    int                `json:"expirySeconds"`
	Reference string             `json:"reference"` // sign and push there, or
	Artifact  ocispec.Descriptor `json:"artifact"`  // sign this
	Scheme    string             `json:"scheme"`
	SignedAt  time.Time          `json:"signedAt"`
}

type answer struct {
	Envelope []byte              `json:"envelope,omitempty"`
	Pushed   *ocispec.Descriptor `json:"pushed,omitempty"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var asked job
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	key, chain, err := identity(asked.Key, asked.Chain)
	if err != nil {
		return err
	}
	var made answer
	if asked.Reference != "" {
		made.Pushed, err = push(ctx, &asked, key, chain)
	} else {
		made.Envelope, err = sign(&asked, key, chain)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(made)
}

// push signs an artifact in a registry and attaches the signature.
func push(ctx context.Context, asked *job, key crypto.Signer, chain []*x509.Certificate) (*ocispec.Descriptor, error) {
	repository, err := remote.NewRepository(asked.Reference)
	if err != nil {
		return nil, err
	}
	repository.PlainHTTP = true
	signing, err := signer.NewGenericSigner(key, chain)
	if err != nil {
		return nil, err
	}
	options := notation.SignOptions{
		ArtifactReference: asked.Reference,
		SignerSignOptions: notation.SignerSignOptions{
			SignatureMediaType: asked.MediaType,
			ExpiryDuration:     time.Duration(asked.Expiry) * time.Second,
		},
	}
	if asked.Timestamp != nil {
		options.Timestamper, options.TSARootCAs, err = timestamper(asked.Timestamp)
		if err != nil {
			return nil, err
		}
	}
	signed, err := notation.Sign(ctx, signing, registry.NewRepository(repository), options)
	return &signed, err
}

// sign makes an envelope, with times of the caller's.
func sign(asked *job, key crypto.Signer, chain []*x509.Certificate) ([]byte, error) {
	payload, err := json.Marshal(map[string]any{"targetArtifact": asked.Artifact})
	if err != nil {
		return nil, err
	}
	signing, err := signature.NewLocalSigner(chain, key)
	if err != nil {
		return nil, err
	}
	request := &signature.SignRequest{
		Payload:       signature.Payload{ContentType: payloadType, Content: payload},
		Signer:        signing,
		SigningTime:   asked.SignedAt,
		SigningScheme: signature.SigningScheme(asked.Scheme),
		SigningAgent:  "penstock-tests",
	}
	if asked.Expiry != 0 {
		request.Expiry = asked.SignedAt.Add(time.Duration(asked.Expiry) * time.Second)
	}
	if asked.Timestamp != nil {
		request.Timestamper, request.TSARootCAs, err = timestamper(asked.Timestamp)
		if err != nil {
			return nil, err
		}
	}
	envelope, err := signature.NewEnvelope(asked.MediaType)
	if err != nil {
		return nil, err
	}
	return envelope.Sign(request)
}

func timestamper(from *authority) (tspclient.Timestamper, *x509.CertPool, error) {
	_, chain, err := identity(from.Key, from.Chain)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(chain[len(chain)-1])
	return from, roots, nil
}

func identity(keyPEM, chainPEM string) (crypto.Signer, []*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(keyPEM))
	if block == nil {
		return nil, nil, errors.New("no key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	var chain []*x509.Certificate
	for rest := []byte(chainPEM); ; {
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, err
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 {
		return nil, nil, errors.New("no certificate")
	}
	return key, chain, nil
}
