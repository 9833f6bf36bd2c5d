package helm

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const encryptedSecret = `apiVersion: v1
kind: Secret
metadata:
  name: db
type: Opaque
stringData:
  b: ENC[AES256_GCM,data:YQ==,type:str]
  a: ENC[AES256_GCM,data:Yg==,type:str]
sops:
  mac: ENC[AES256_GCM,data:Yw==,type:str]
  version: "3.13.3"
`

func offered() *Carriers {
	return &Carriers{Label: "example/decrypt", Value: "true", Key: "document", OptOut: "example/leave", Marker: "ENC[AES256_GCM,"}
}

// annotated returns a manifest as Helm hands it to post-renderers.
func annotated(t *testing.T, manifest string) []byte {
	t.Helper()
	objects, err := kio.ParseAll(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := object.PipeE(yaml.SetAnnotation(fileAnnotation, "templates/x.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := kio.StringAll(objects)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(merged)
}

func exchanged(t *testing.T, manifest string) *yaml.RNode {
	t.Helper()
	text, err := offered().exchange(annotated(t, manifest))
	if err != nil {
		t.Fatal(err)
	}
	return yaml.MustParse(string(text))
}

func TestEncryptedSecretTravelsAsItWasWritten(t *testing.T) {
	carrier := exchanged(t, encryptedSecret)

	document, err := base64.StdEncoding.DecodeString(carrier.GetDataMap()["document"])
	if err != nil || string(document) != encryptedSecret {
		t.Errorf("%v:\n%s", err, document)
	}
	if carrier.GetLabels()["example/decrypt"] != "true" || carrier.GetAnnotations()[fileAnnotation] == "" {
		t.Errorf("metadata are %v, %v", carrier.GetLabels(), carrier.GetAnnotations())
	}
	if carrier.Field("sops") != nil || carrier.Field("stringData") != nil || len(carrier.GetDataMap()) != 1 {
		t.Error(carrier.MustString())
	}
	if carrier.Field("type") == nil || carrier.GetName() != "db" {
		t.Error(carrier.MustString())
	}
}

// scalars are what authenticates a document: its keys and values in their order.
func scalars(node *yaml.Node) []string {
	if node.Kind == yaml.ScalarNode {
		return []string{node.Tag + " " + node.Value}
	}
	var found []string
	for _, each := range node.Content {
		found = append(found, scalars(each)...)
	}
	return found
}

func TestDocumentsOfSopsTravelUnchanged(t *testing.T) {
	for _, name := range []string{"secret.yaml", "sealed.yaml"} {
		written, err := os.ReadFile("../../../tests/conformance/sops/encrypted/" + name)
		if err != nil {
			t.Fatal(err)
		}

		carrier := exchanged(t, string(written))

		document, err := base64.StdEncoding.DecodeString(carrier.GetDataMap()["document"])
		if err != nil {
			t.Fatal(err)
		}
		got, want := yaml.MustParse(string(document)), yaml.MustParse(string(written))
		if !slices.Equal(scalars(got.YNode()), scalars(want.YNode())) {
			t.Errorf("%s:\n%s", name, document)
		}
	}
}

func TestSecretsAreOptedInIfTheyHoldDocuments(t *testing.T) {
	document := "a: ENC[AES256_GCM,data:YQ==]\nsops: {mac: x}\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(document))
	quoted := `"` + strings.ReplaceAll(document, "\n", `\n`) + `"`
	head := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n"
	for name, row := range map[string]struct {
		manifest string
		opted    bool
	}{
		"data":        {head + "data: {a: " + encoded + "}\n", true},
		"broken data": {head + "data:\n  a: |\n    " + encoded[:20] + "\n    " + encoded[20:] + "\n", true},
		"text":        {head + "stringData: {a: " + quoted + "}\n", true},
		"plain":       {head + "data: {a: aHVudGVy, b: '%'}\nstringData: {c: sops}\n", false},
		"one value":   {head + "stringData: {a: 'ENC[AES256_GCM,data:YQ==]'}\n", false},
		"none":        {head, false},
		"no mapping":  {head + "data: [a]\nstringData: a\n", false},
		"left alone":  {head + "  annotations: {example/leave: Disabled}\ndata: {a: " + encoded + "}\n", false},
		"whole, left": {strings.Replace(encryptedSecret, "  name: db", "  name: db\n  annotations: {example/leave: disabled}", 1), false},
		"other kind":  {strings.Replace(head, "Secret", "ConfigMap", 1) + "data: {a: " + quoted + "}\n", false},
		"other group": {strings.Replace(encryptedSecret, "v1", "example.org/v1", 1), false},
	} {
		object := exchanged(t, row.manifest)
		if opted := object.GetLabels()["example/decrypt"] == "true"; opted != row.opted {
			t.Errorf("%s: %v\n%s", name, opted, object.MustString())
		}
	}
}

func TestEncryptedMetadataAreRefusedWithARemedy(t *testing.T) {
	manifest := strings.Replace(encryptedSecret, "name: db", "name: ENC[AES256_GCM,data:YQ==]", 1)

	_, err := offered().exchange([]byte(manifest))

	if err == nil || !strings.Contains(err.Error(), "encrypted_regex") {
		t.Error(err)
	}
}

func TestNothingIsExchangedUnlessAsked(t *testing.T) {
	text, err := (&Carriers{}).exchange([]byte(encryptedSecret))

	if err != nil || string(text) != encryptedSecret {
		t.Errorf("%v: %s", err, text)
	}
}
