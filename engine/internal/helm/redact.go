package helm

import (
	"encoding/base64"
	"encoding/json"
	"sort"
	"strings"
)

// shortest is the length from which a value is worth hiding: shorter ones are parts of words.
const shortest = 4

// hidden are the texts that a message must not contain: those the request names, and the values of
// the Secrets of a release in both of their forms.
func hidden(request *Request, release *Release) []string {
	texts := append([]string{}, request.Secrets...)
	if release == nil {
		return texts
	}
	for _, object := range release.Objects {
		var secret struct {
			Kind       string            `json:"kind"`
			Data       map[string]string `json:"data"`
			StringData map[string]string `json:"stringData"`
		}
		if json.Unmarshal(object, &secret) != nil || secret.Kind != "Secret" {
			continue
		}
		for _, value := range secret.StringData {
			texts = append(texts, value, base64.StdEncoding.EncodeToString([]byte(value)))
		}
		for _, value := range secret.Data {
			texts = append(texts, value)
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
				texts = append(texts, string(plain))
			}
		}
	}
	return texts
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
