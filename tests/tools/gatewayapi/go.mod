// The definitions of the Gateway API, which examples of the documentation are checked against.
module penstock.dev/tests/tools/gatewayapi

go 1.26.0

require sigs.k8s.io/gateway-api v1.4.0 // indirect
