package images

import (
	"encoding/json"
	"strings"
	"testing"
)

func message(t *testing.T, request MessageRequest) (string, error) {
	t.Helper()
	in, _ := json.Marshal(request)
	out, err := Message(t.Context(), in)
	if err != nil {
		return "", err
	}
	var response MessageResponse
	return response.Message, json.Unmarshal(out, &response)
}

func request(template string) MessageRequest {
	object := Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	return MessageRequest{
		Template: template, Namespace: "apps", Name: "bot", Images: chosen, Values: map[string]string{"team": "red"},
		Files: []File{
			{Path: "a.yaml", Changes: []Change{{Object: object, Setter: "apps:web:tag", Old: "v1", New: "v2.0.0"}}},
			{Path: "b.yaml", Changes: []Change{
				{Object: object, Setter: "apps:web", Old: "web:v1", New: chosen["apps:web"].String()},
				{Object: Object{Kind: "Job", Name: "j"}, Setter: "apps:web:tag", Old: "v1", New: "v2.0.0"},
			}},
		},
	}
}

func TestTemplatesOfFluxUsersAreUnderstood(t *testing.T) {
	for template, want := range map[string]string{
		// The seeds'.
		"Update image: {{range .Updated.Images}}{{println .}}{{end}}":                                                            "Update image: registry.example.com:5000/org/web:v2.0.0\n",
		"chore: update {{range .Updated.Images}}{{.}}{{end}}":                                                                    "chore: update registry.example.com:5000/org/web:v2.0.0",
		"{{ .AutomationObject }} {{ .AutomationObject.Name }}":                                                                   "apps/bot bot",
		"{{ range $f, $_ := .Changed.FileChanges }}{{ $f }} {{ end }}":                                                           "a.yaml b.yaml ",
		"{{ range .Changed.Changes }}{{ .OldValue }}>{{ .NewValue }};{{ end }}":                                                  "v1>v2.0.0;web:v1>registry.example.com:5000/org/web:v2.0.0;",
		"{{ range $o, $c := .Changed.Objects }}{{ $o.Kind }}/{{ $o.Name }}:{{ len $c }} {{ end }}":                               "Job/j:1 Deployment/web:2 ",
		"{{ range .Changed.Objects }}{{ range . }}{{ .Setter }} {{ end }}{{ end }}":                                              "apps:web:tag apps:web:tag apps:web ",
		"{{ range $r, $_ := .Updated.Objects }}{{ $r.Kind }} {{ end }}":                                                          "Job Deployment ",
		"{{ range $f, $_ := .Updated.Files }}{{ $f }} {{ end }}":                                                                 "a.yaml b.yaml ",
		"{{ range .Changed.ImageResult.Images }}{{ .Repository }}|{{ .Identifier }}|{{ .Registry }}|{{ .Policy.Name }}{{ end }}": "org/web|v2.0.0|registry.example.com:5000|web",
		"[{{ .Values.team | upper }}]":                                                                                           "[RED]",
	} {
		got, err := message(t, request(template))
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", template, got, err, want)
		}
	}
}

func TestWhatIsNoTemplateIsToldBeforeItIsUsed(t *testing.T) {
	for _, template := range []string{"{{ .Changed", "{{ env \"HOME\" }}", "{{ getHostByName \"a\" }}", "{{ genPrivateKey \"rsa\" }}"} {
		broken := request(template)
		broken.Check = true
		if _, err := message(t, broken); err == nil {
			t.Errorf("%s is taken", template)
		}
	}
}

func TestAMessageEnds(t *testing.T) {
	_, err := message(t, request(`{{ range until 100000 }}0123456789{{ end }}`))

	if err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("%v", err)
	}
}

func TestThePartsOfAnImageAreThoseOfFlux(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, each := range []struct {
		image Image
		want  string
	}{
		{Image{Name: "nginx", Tag: "1"}, "nginx:1|1|library/nginx|index.docker.io|index.docker.io/library/nginx:1"},
		{Image{Name: "docker.io/org/a", Tag: "1"}, "docker.io/org/a:1|1|org/a|index.docker.io|index.docker.io/org/a:1"},
		{Image{Name: "org/a", Tag: "1"}, "org/a:1|1|org/a|index.docker.io|index.docker.io/org/a:1"},
		{Image{Name: "localhost/a", Tag: "1"}, "localhost/a:1|1|a|localhost|localhost/a:1"},
		{Image{Name: "ghcr.io/a", Tag: "1", Digest: digest}, "ghcr.io/a:1@" + digest + "|" + digest + "|a|ghcr.io|ghcr.io/a@" + digest},
	} {
		asked := request("{{ range .Updated.Images }}{{ . }}|{{ .Identifier }}|{{ .Repository }}|{{ .Registry }}|{{ .Name }}{{ end }}")
		asked.Images = map[string]Image{"apps:web": each.image}
		asked.Files = asked.Files[:1]

		got, err := message(t, asked)

		if err != nil || got != each.want {
			t.Errorf("%q, %v, want %q", got, err, each.want)
		}
	}
}
