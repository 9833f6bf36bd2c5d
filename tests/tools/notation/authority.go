package main

import (
	"context"
	"crypto"
	"encoding/asn1"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/notaryproject/tspclient-go"
)

// authority is a timestamp authority (RFC 3161) that says what it is told to say.
type authority struct {
	Key   string    `json:"key"`
	Chain string    `json:"chain"`
	At    time.Time `json:"at"` // the time to attest
}

// Timestamp answers a request (tspclient.Timestamper).
func (a *authority) Timestamp(_ context.Context, request *tspclient.Request) (*tspclient.Response, error) {
	key, chain, err := identity(a.Key, a.Chain)
	if err != nil {
		return nil, err
	}
	asked, err := request.MarshalBinary()
	if err != nil {
		return nil, err
	}
	parsed, err := timestamp.ParseRequest(asked)
	if err != nil {
		return nil, err
	}
	at := a.At
	if at.IsZero() {
		at = time.Now()
	}
	token := timestamp.Timestamp{
		HashAlgorithm:     parsed.HashAlgorithm,
		HashedMessage:     parsed.HashedMessage,
		Time:              at,
		Nonce:             parsed.Nonce,
		Policy:            asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1},
		Accuracy:          time.Second,
		Certificates:      chain[1:],
		AddTSACertificate: parsed.Certificates,
	}
	answered, err := token.CreateResponseWithOpts(chain[0], key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var response tspclient.Response
	return &response, response.UnmarshalBinary(answered)
}
