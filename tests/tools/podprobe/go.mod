// What runs in the pods of tests on a real node. It needs nothing but Go's own library.
module penstock.dev/tests/tools/podprobe

go 1.26.0
