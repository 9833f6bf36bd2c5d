package helm

import (
	"encoding/base64"
	"sort"
	"strconv"
	"strings"

	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

// shortest is the length from which a value is worth hiding, shorter ones are parts of words, and
// shortestLine that of one of its lines.
const (
	shortest     = 4
	shortestLine = 8
)

// hidden are the texts that a message must not contain: those the request names, and the values of
// the Secrets of a release. Objects hold them in base64, and errors quote them.
func hidden(request *Request, release *releasev1.Release) []string {
	var texts []string
	add := func(plain string) {
		quoted := strconv.Quote(plain)
		texts = append(texts, plain, base64.StdEncoding.EncodeToString([]byte(plain)), quoted[1:len(quoted)-1])
		for _, line := range strings.Split(plain, "\n") {
			if len(line) >= shortestLine {
				texts = append(texts, line)
			}
		}
	}
	for _, each := range request.Secrets {
		add(each)
	}
	if release == nil {
		return texts
	}
	for _, plain := range secretsOf(release) {
		add(plain)
	}
	return texts
}

// secretsOf returns the values of the Secrets that a release holds.
func secretsOf(release *releasev1.Release) []string {
	manifests := releaseutil.SplitManifests(release.Manifest)
	for _, hook := range release.Hooks {
		manifests[hook.Path+hook.Name] = hook.Manifest
	}
	var found []string
	for _, manifest := range manifests {
		var secret struct {
			Kind       string            `json:"kind"`
			Data       map[string]string `json:"data"`
			StringData map[string]string `json:"stringData"`
		}
		if !strings.Contains(manifest, "Secret") || yaml.Unmarshal([]byte(manifest), &secret) != nil || secret.Kind != "Secret" {
			continue
		}
		for _, value := range secret.StringData {
			found = append(found, value)
		}
		for _, value := range secret.Data {
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
				found = append(found, string(plain))
			}
		}
	}
	return found
}

func redact(message string, texts []string) string {
	// The longest first: one may be a part of another.
	sort.Slice(texts, func(a, b int) bool { return len(texts[a]) > len(texts[b]) })
	for _, text := range texts {
		if len(text) >= shortest {
			message = strings.ReplaceAll(message, text, "***")
		}
	}
	return message
}
