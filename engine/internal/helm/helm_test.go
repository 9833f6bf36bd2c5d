package helm

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

func made(version int, status common.Status) *releasev1.Release {
	return &releasev1.Release{Name: "app", Namespace: "team", Version: version, Info: &releasev1.Info{Status: status}}
}

func TestValuesOfSecretsAreHidden(t *testing.T) {
	release := made(1, common.StatusDeployed)
	release.Manifest = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {b: aHVudGVyLTIy}\n"
	release.Hooks = []*releasev1.Hook{{Name: "h", Manifest: "kind: Secret\nstringData: {c: correct-horse}\n"}}
	request := &Request{Secrets: []string{"first line\nsecond line\n"}}

	got := redact(`hunter-22 aHVudGVyLTIy correct-horse "first line\nsecond line\n" second line`, hidden(request, release))

	for _, secret := range []string{"hunter", "aHVud", "horse", "first", "second"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is told: %s", secret, got)
		}
	}
}

func TestJournalHasWhatWasWritten(t *testing.T) {
	memory := driver.NewMemory()
	memory.SetNamespace("team")
	hide := func(text string, _ *releasev1.Release) string { return strings.ReplaceAll(text, "secret", "***") }
	drop := func(key string) error { _, err := memory.Delete(key); return err }
	j := &journal{Driver: memory, drop: drop, redact: hide, written: map[int]*releasev1.Release{}}
	first, second := made(1, common.StatusDeployed), made(2, common.StatusPendingUpgrade)
	for _, each := range []*releasev1.Release{first, second} {
		if err := j.Create("sh.helm.release.v1.app.v"+string(rune('0'+each.Version)), each); err != nil {
			t.Fatal(err)
		}
	}
	second.SetStatus(common.StatusFailed, "a secret")
	if err := j.Update("sh.helm.release.v1.app.v2", second); err != nil {
		t.Fatal(err)
	}
	second.SetStatus(common.StatusDeployed, "never written")
	if _, err := j.Delete("sh.helm.release.v1.app.v1"); err != nil {
		t.Fatal(err)
	}

	got := j.releases()

	if len(got) != 1 || got[0].Info.Status != common.StatusFailed || got[0].Info.Description != "a ***" {
		t.Errorf("got %+v", got)
	}
}

// severed is a storage that cannot be reached once a record is in it.
type severed struct{ *driver.Memory }

func (severed) Update(string, release.Releaser) error { return errors.New("cannot be reached") }

func TestRecordThatCannotBeSettledStaysPending(t *testing.T) {
	memory := severed{driver.NewMemory()}
	memory.SetNamespace("team")
	same := func(text string, _ *releasev1.Release) string { return text }
	j := &journal{Driver: memory, redact: same, written: map[int]*releasev1.Release{}}
	config := action.NewConfiguration()
	config.Releases = storage.Init(j)
	r := &run{Request: &Request{Name: "app"}, config: config, journal: j}
	if err := config.Releases.Create(made(2, common.StatusPendingUpgrade)); err != nil {
		t.Fatal(err)
	}

	r.settle(errors.New("a patch failed"))

	if got := j.releases(); len(got) != 1 || got[0].Info.Status != common.StatusPendingUpgrade {
		t.Errorf("got %+v", got[0].Info)
	}
}

// counted is a storage that tells how often it was listed.
type counted struct {
	*driver.Memory
	lists int
}

func (c *counted) Query(labels map[string]string) ([]release.Releaser, error) {
	c.lists++
	return c.Memory.Query(labels)
}

func TestJournalListsRecordsOnce(t *testing.T) {
	memory := &counted{Memory: driver.NewMemory()}
	memory.SetNamespace("team")
	same := func(text string, _ *releasev1.Release) string { return text }
	drop := func(key string) error { _, err := memory.Memory.Delete(key); return err }
	open := func() *storage.Storage {
		return storage.Init(&journal{Driver: memory, drop: drop, redact: same, written: map[int]*releasev1.Release{}})
	}
	before := open()
	for version := range 3 {
		if err := before.Create(made(version+1, common.StatusSuperseded)); err != nil {
			t.Fatal(err)
		}
	}

	now := open()
	if _, err := now.Delete("app", 1); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("a record that was not listed was deleted: %v", err)
	}
	if found, err := now.History("app"); len(found) != 3 || err != nil {
		t.Fatalf("got %v, %v", found, err)
	}
	if _, err := now.Delete("app", 1); err != nil {
		t.Fatal(err)
	}
	if err := now.Create(made(4, common.StatusDeployed)); err != nil {
		t.Fatal(err)
	}
	found, err := now.History("app")

	if len(found) != 3 || err != nil || memory.lists != 1 {
		t.Errorf("got %v, %v after %d lists", found, err, memory.lists)
	}
	if _, err := now.Delete("app", 2); err != nil {
		t.Fatal(err)
	}
	if kept, _ := memory.Memory.Query(map[string]string{"name": "app", "owner": "helm"}); len(kept) != 2 {
		t.Errorf("kept %v", kept)
	}
}

func TestTheEndOfTheLogIsKept(t *testing.T) {
	j := &journalist{redact: func(text string) string { return strings.ReplaceAll(text, "hunter", "***") }, kept: &lines{}}
	logger := slog.New(j).With("a", 1)
	for range 30 {
		logger.Debug("early")
	}
	logger.Warn("hunter", "error", errors.New("hunter"), "long", strings.Repeat("x", 5000))

	got := j.last()

	if len(got) != logLines || !strings.Contains(got[logLines-1], ": *** a=1 error=***") {
		t.Errorf("got %q", got)
	}
	if len(got[logLines-1]) > logLength+50 {
		t.Errorf("a line of %d bytes", len(got[logLines-1]))
	}
}

func TestFailuresHaveCodes(t *testing.T) {
	for message, want := range map[string]string{
		`values don't meet the specifications of the schema(s)`:                    "SchemaViolation",
		`template: shop/templates/a.yaml:3:4: executing`:                           "TemplateFailed",
		"render: shop/templates/a.yaml:1:28\n  executing \"a\" at <x>:\n    bad\n": "TemplateFailed",
		"shop/charts/sub/templates/a.yaml:1:28\n  bad":                             "TemplateFailed",
		`no matches for kind "Widget" in version "a/v1"`:                           "CRDMissing",
		`Secret "x" is invalid: data: Forbidden: field is immutable when set`:      "Immutable",
		`secrets is forbidden: User "x" cannot create`:                             "Forbidden",
		`failed pre-install: 1 error`:                                              "HookFailed",
		`another operation (install/upgrade/rollback) is in progress`:              "Locked",
		`cannot reuse a name that is still in use`:                                 "Conflict",
		`anything else`: "Failed",
	} {
		if got := code(t.Context(), errors.New(message)); got != want {
			t.Errorf("%s: %s, not %s", message, got, want)
		}
	}
}

func TestKindsThatNeedEachOtherAreDeletedOneAfterAnother(t *testing.T) {
	of := func(group, kind string) *resource.Info {
		return &resource.Info{Mapping: &meta.RESTMapping{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind},
		}}
	}
	const rbac = "rbac.authorization.k8s.io"
	found := steps(kube.ResourceList{
		of("", "Service"), of("apps", "Deployment"), of("apps", "Deployment"), of(rbac, "RoleBinding"),
		of(rbac, "Role"), of("", "ConfigMap"), of("", "Secret"), of("example.com", "Secret"), of("", "Namespace"),
	})
	told := make([]string, 0, len(found))
	for _, step := range found {
		kinds := make([]string, 0, len(step))
		for _, each := range step {
			kinds = append(kinds, fmt.Sprintf("%d %s", len(each), each[0].Mapping.GroupVersionKind.Kind))
		}
		told = append(told, strings.Join(kinds, ", "))
	}
	wanted := []string{
		"1 Service, 2 Deployment", "1 RoleBinding", "1 Role", "1 ConfigMap, 1 Secret", "1 Secret", "1 Namespace",
	}
	if !slices.Equal(told, wanted) {
		t.Errorf("%q", told)
	}
}
