package notation

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"

	"github.com/notaryproject/notation-go/verifier/truststore"

	"penstock.dev/engine/internal/call"
)

// stores are the trust stores by type: all stores of a type hold the same certificates.
type stores map[truststore.Type][]*x509.Certificate

func readStores(given map[string][]Certificate) (stores, error) {
	read := stores{}
	for kind, certificates := range given {
		for _, certificate := range certificates {
			parsed, err := readCertificate(truststore.Type(kind), certificate.DER)
			if err != nil {
				return nil, &call.Failure{
					Code:    "InvalidCertificate",
					Message: fmt.Sprintf("'%s': %v", certificate.Name, err),
				}
			}
			read[truststore.Type(kind)] = append(read[truststore.Type(kind)], parsed)
		}
	}
	return read, nil
}

func readCertificate(kind truststore.Type, der []byte) (*x509.Certificate, error) {
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := truststore.ValidateCertificates([]*x509.Certificate{certificate}); err != nil {
		return nil, err
	}
	if kind == truststore.TypeTSA && !isRoot(certificate) {
		return nil, fmt.Errorf("certificate with subject %q is in a tsa trust store and no root CA certificate",
			certificate.Subject)
	}
	return certificate, nil
}

func isRoot(certificate *x509.Certificate) bool {
	return certificate.CheckSignatureFrom(certificate) == nil &&
		bytes.Equal(certificate.RawSubject, certificate.RawIssuer)
}

// GetCertificates returns what the named store holds.
func (s stores) GetCertificates(_ context.Context, kind truststore.Type, name string) ([]*x509.Certificate, error) {
	if len(s[kind]) == 0 {
		return nil, truststore.CertificateError{Msg: fmt.Sprintf("there is no certificate for trust store \"%s:%s\"", kind, name)}
	}
	return s[kind], nil
}
