// Podprobe is a program to run in a pod: it serves, asks other servers and resolves names.
//
//	podprobe serve [CERTIFICATE KEY]   HTTP on :8080, and HTTPS on :8443 if there is a certificate
//	podprobe get URL [CA]              print what the server answers
//	podprobe lookup NAME               print the addresses of a name
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	commands := map[string]func([]string) error{"serve": serve, "get": get, "lookup": lookup}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func serve(arguments []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		log.Printf("served %s", r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{%q: %q, %q: %q}", "pod", name, "user", r.Header.Get("X-Remote-User"))
	})
	ended := make(chan error)
	go func() { ended <- http.ListenAndServe(":8080", nil) }()
	if len(arguments) == 2 {
		go func() { ended <- http.ListenAndServeTLS(":8443", arguments[0], arguments[1], nil) }()
	}
	return <-ended
}

func get(arguments []string) error {
	transport := &http.Transport{}
	if len(arguments) == 2 {
		authority, err := os.ReadFile(arguments[1])
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	client := http.Client{Timeout: 10 * time.Second, Transport: transport}
	answer, err := client.Get(arguments[0])
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func lookup(arguments []string) error {
	found, err := net.LookupHost(arguments[0])
	fmt.Println(strings.Join(found, " "))
	return err
}
