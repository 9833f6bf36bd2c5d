// Coredns is CoreDNS with the plugins that the node's Corefile names and no others: the usual build
// brings the clients of four clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// The order in which plugins see a query, which is CoreDNS' own.
var directives = []string{"bind", "ready", "errors", "loadbalance", "cache", "template", "kubernetes"}

func main() {
	dnsserver.Directives = directives
	coremain.Run()
}
