// flux is the command whose users install Penstock in the place of Flux, pinned by go.sum.
module penstock.dev/tests/tools/flux

go 1.26.0

require github.com/fluxcd/flux2/v2 v2.9.5 // indirect
