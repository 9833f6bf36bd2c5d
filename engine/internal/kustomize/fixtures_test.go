package kustomize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"penstock.dev/engine/internal/call"
)

// application is a small service in four objects.
func application(i int) map[string]string {
	return map[string]string{
		"serviceaccount": fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata:
  name: app-%d
`, i),
		"configmap": fmt.Sprintf(`# settings
apiVersion: v1
kind: ConfigMap
metadata:
  name: app-%d
  labels: {app: app-%d}
data:
  key: value
  config.ini: |
    [main]
    level = info
`, i, i),
		"service": fmt.Sprintf(`apiVersion: v1
kind: Service
metadata:
  name: app-%d
spec:
  selector: {app: app-%d}
  ports:
  - {name: http, port: 80, targetPort: 8080}
`, i, i),
		"deployment": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-%d
spec:
  replicas: 2
  selector: {matchLabels: {app: app-%d}}
  template:
    metadata: {labels: {app: app-%d}}
    spec:
      serviceAccountName: app-%d
      containers:
      - name: main
        image: registry.example.com/app:1.2.3
        envFrom:
        - configMapRef: {name: app-%d}
        resources: {limits: {cpu: "1", memory: 64Mi}}
`, i, i, i, i, i),
	}
}

func writeTree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func buildDir(ctx context.Context, dir, path string, x Transformations) (*Response, error) {
	return buildRequest(ctx, Request{Mounts: map[string]string{"": dir}, Path: path, Transformations: x})
}

func buildRequest(ctx context.Context, request Request) (*Response, error) {
	in, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	out, err := Build(ctx, in)
	if err != nil {
		return nil, err
	}
	var response Response
	return &response, json.Unmarshal(out, &response)
}

func failureOf(t *testing.T, err error) *call.Failure {
	t.Helper()
	var failure *call.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("error %v is not a failure", err)
	}
	return failure
}
