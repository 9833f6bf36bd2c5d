package kustomize

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/tree"
)

// documents are objects, and things that only look like objects, by the way that they take.
var documents = map[string]struct {
	straight bool // the straight way is sure of it
	text     string
}{
	"scalars of every kind": {true, `
apiVersion: example.com/v1
kind: Scalars
metadata: {name: scalars}
spec:
  bools: [true, True, yes, on, "true", n]
  ints: [1, -7, 0x1F, 0o17, 0777, 1_000, 9007199254740993, 18446744073709551615]
  floats: [1.0, 1e3, 1.5e-7, .5, 6.02e+23]
  nulls: {tilde: ~, word: null, empty:}
  strings: ["", ' ', "1", "1e3", "null", 'yes', "é☃𝄞", "tab\tnl\nquote\"", "<&>", "2001-01-01", 1.2.3]
  dates: [2001-01-01, 2001-12-14t21:59:43.10-05:00]
  empty: {map: {}, list: []}
`},
	"block strings": {true, `
apiVersion: v1
kind: ConfigMap
metadata: {name: blocks}
data:
  literal: |
    one
      two

    three
  keep: |+
    x


  strip: |-
    x
  folded: >
    a
    b

    c
  indented: |2
      leading space
  trailing: "line \n\tnext \n"
  windows: "a\r\nb"
`},
	"binary": {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bin}\nbinaryData: {x: !!binary aGVsbG8=}\n"},
	"anchors and merges": {true, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: anchors
  labels: &labels {a: b, c: d}
  annotations: {<<: *labels, e: f}
data: &data
  x: &x "1"
  y: *x
more: [*data, *data]
`},
	"comments only":  {true, "# nothing\n"},
	"empty document": {true, ""},
	"annotations":    {true, "apiVersion: v1\nkind: A\nmetadata: {name: annotated, annotations: {b: \"2\", a: 1, t: true, z: }}\n"},
	"empty metadata": {true, "apiVersion: v1\nkind: B\nmetadata: {name: bare, annotations: {}, labels: {}, finalizers: []}\n"},
	"null metadata":  {true, "apiVersion: v1\nkind: C\nmetadata: {name: nulls, annotations: null, labels: null}\n"},
	"origin": {true, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: origin
  annotations: {config.kubernetes.io/origin: x, alpha.config.kubernetes.io/transformations: y, stays: z}
`},
	"local":        {true, "apiVersion: v1\nkind: Local\nmetadata: {name: l1, annotations: {config.kubernetes.io/local-config: \"true\"}}\n"},
	"empty local":  {true, "apiVersion: v1\nkind: Local\nmetadata: {name: l2, annotations: {config.kubernetes.io/local-config: }}\n"},
	"not local":    {true, "apiVersion: v1\nkind: Local\nmetadata: {name: l3, annotations: {config.kubernetes.io/local-config: \"false\"}}\n"},
	"windows":      {true, "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: crlf\r\ndata:\r\n  a: |\r\n    b\r\n"},
	"json":         {true, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json"}, "data": {"a": "\u00e9"}}`},
	"cluster role": {true, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: role}\nrules:\n- {apiGroups: [\"\"], resources: [secrets], resourceNames: [a, b], verbs: [get]}\n"},
	"role binding": {true, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: role}
subjects:
- {kind: ServiceAccount, name: app-1}
- {kind: ServiceAccount, name: app-2, namespace: other}
- {kind: User, name: alice}
`},
	"webhook": {true, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- {name: a.example.com, clientConfig: {service: {name: app-1, namespace: x}}}
- {name: b.example.com, clientConfig: {url: "https://x"}}
`},
	"ingress": {true, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, annotations: {nginx.ingress.kubernetes.io/auth-secret: basic}}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a], secretName: tls}]
  rules: [{host: a, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: app-1, port: {number: 80}}}}]}}]
`},
	"cron job": {true, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "*/5 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          serviceAccountName: app-1
          volumes: [{name: c, configMap: {name: app-1}}, {name: e, emptyDir: {}}]
          containers: [{name: x, image: y, env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]
`},
	"list": {true, `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: item-1}}
- {apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: item-2}, data: {n: 1.0, big: 9007199254740993}}]}
`},
	"empty list":             {true, "apiVersion: v1\nkind: ConfigMapList\nitems: []\n"},
	"null list":              {true, "apiVersion: v1\nkind: ConfigMapList\nitems:\n"},
	"list by name only":      {true, "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: allow}\nspec: {x: 1}\n"},
	"kustomize's own":        {true, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: own}\nresources: [x]\n"},
	"same name, other group": {true, "apiVersion: other.example.com/v1\nkind: ConfigMap\nmetadata: {name: app-1}\n"},
	"namespace":              {true, "apiVersion: v1\nkind: Namespace\nmetadata: {name: app-1}\n"},
	"crd": {true, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: app-1, namespace: x}}}}}
`},
	"api service":            {true, "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.x}\nspec: {service: {name: app-1}}\n"},
	"default subject":        {true, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: d}\nroleRef: {apiGroup: g, kind: ClusterRole, name: role}\nsubjects: [{kind: ServiceAccount, name: default, namespace: x}]\n"},
	"unknown kind":           {true, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, namespace: x}\nspec: {serviceAccountName: app-1, namespace: y}\n"},
	"odd namespace":          {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ns, namespace: 5}\n"},
	"null namespace":         {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ns2, namespace: null}\n"},
	"map namespace":          {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ns3, namespace: {a: b}}\n"},
	"same name, other space": {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app-1, namespace: other}\n"},

	"reference to a number": {false, "apiVersion: v1\nkind: Pod\nmetadata: {name: p1}\nspec: {serviceAccountName: 123}\n"},
	"reference to nothing":  {false, "apiVersion: v1\nkind: Pod\nmetadata: {name: p2}\nspec: {volumes: }\n"},
	"text for a list":       {false, "apiVersion: v1\nkind: Pod\nmetadata: {name: p3}\nspec: {containers: many}\n"},
	"no name in a subject":  {false, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\nsubjects: [{kind: User}]\n"},
	"blank subject space":   {false, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b2}\nsubjects: [{kind: ServiceAccount, name: x, namespace: }]\n"},
	"build annotations": {false, `
apiVersion: v1
kind: ConfigMap
metadata: {name: forged, annotations: {internal.config.kubernetes.io/previousNames: app-1, internal.config.kubernetes.io/previousNamespaces: default, internal.config.kubernetes.io/previousKinds: ConfigMap}}
`},
	"index annotations": {false, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: indexed, annotations: {config.kubernetes.io/index: \"3\", a: b}}\n"},
	"no kind":           {false, "apiVersion: v1\nmetadata: {name: x}\n"},
	"no name":           {false, "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"},
	"generated name":    {false, "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n"},
	"text":              {false, "just words\n"},
	"values":            {false, "replicas: 3\nimage: {tag: x}\n"},
	"broken":            {false, "a: [1\n"},
	"tabs":              {false, "a:\n\tb: c\n"},
	"bad separator":     {false, "a: b\n--- x\nc: d\n"},
	"list of text":      {false, "apiVersion: v1\nkind: ConfigMapList\nitems: {a: b}\n"},
	"duplicate":         {false, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice, namespace: default}\n"},
	"no apiVersion":     {true, "kind: ConfigMap\nmetadata: {name: x}\n"},
	"keys twice":        {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, a: c}\n"},
	"keys of numbers":   {true, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {1: b}\n"},
	"no number":         {true, "apiVersion: v1\nkind: N\nmetadata: {name: x}\nspec: {a: .nan}\n"},
}

// layouts are directories, by the way that they take.
var layouts = map[string]struct {
	straight bool
	files    map[string]string
}{
	"nested directories": {true, map[string]string{
		"b/x.yaml": application(1)["service"], "a/c/y.yml": application(1)["configmap"],
		"a.yaml": application(1)["deployment"], "README.md": "no YAML", "a/notes.txt": "text",
	}},
	"a list of files": {true, map[string]string{
		"kustomization.yaml": "resources: [z.yaml, a.yaml]", "z.yaml": application(1)["service"],
		"a.yaml": application(1)["configmap"], "unlisted.yaml": "broken: [",
	}},
	"kustomizations that list": {true, map[string]string{
		"kustomization.yml":         "kind: Kustomization\nmetadata: {name: x}\nresources: [../apps/one, two.yaml]\nbases: [./sub]",
		"two.yaml":                  application(2)["service"],
		"../apps/one/Kustomization": "apiVersion: kustomize.config.k8s.io/v1beta1\nresources: [x.yaml]",
		"../apps/one/x.yaml":        application(1)["service"], "sub/kustomization.yaml": "resources: [s.yaml]",
		"sub/s.yaml": application(3)["service"],
	}},
	"a unit in a directory": {true, map[string]string{
		"a.yaml": application(1)["service"], "unit/kustomization.yaml": "resources: [b.yaml]",
		"unit/b.yaml": application(2)["service"], "unit/c.yaml": "not listed",
	}},
	"a field that kustomize does not know": {true, map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\nnonsense: true", "a.yaml": application(1)["service"],
	}},
	"a namespace": {true, map[string]string{
		"kustomization.yaml": "namespace: theirs\nresources: [a.yaml, u]", "a.yaml": application(1)["deployment"],
		"u/kustomization.yaml": "resources: [b.yaml]", "u/b.yaml": application(2)["service"],
	}},
	"a namespace in a unit": {false, map[string]string{
		"kustomization.yaml": "resources: [u]", "u/kustomization.yaml": "namespace: theirs\nresources: [b.yaml]",
		"u/b.yaml": application(2)["service"],
	}},
	"a unit that changes": {false, map[string]string{
		"a.yaml": application(1)["service"], "unit/kustomization.yaml": "namePrefix: p-\nresources: [b.yaml]",
		"unit/b.yaml": application(2)["service"],
	}},
	"an unknown field in a unit": {false, map[string]string{
		"unit/kustomization.yaml": "resources: [b.yaml]\nnonsense: true", "unit/b.yaml": application(2)["service"],
	}},
	"a generator": {false, map[string]string{"kustomization.yaml": "configMapGenerator: [{name: x, literals: [a=b]}]"}},
	"a component": {false, map[string]string{
		"kustomization.yaml": "components: [c]", "c/kustomization.yaml": "kind: Component\nresources: [x.yaml]",
		"c/x.yaml": application(1)["service"],
	}},
	"a component among resources": {false, map[string]string{
		"kustomization.yaml": "resources: [c]", "c/kustomization.yaml": "kind: Component\nresources: [x.yaml]",
		"c/x.yaml": application(1)["service"],
	}},
	"an order": {false, map[string]string{
		"kustomization.yaml": "sortOptions: {order: legacy}\nresources: [a.yaml]",
		"a.yaml":             application(1)["service"] + "---\n" + application(1)["serviceaccount"],
	}},
	"labels":               {false, map[string]string{"kustomization.yaml": "commonLabels: {a: b}\nresources: [a.yaml]", "a.yaml": application(1)["service"]}},
	"another kind":         {false, map[string]string{"kustomization.yaml": "kind: Other\nresources: [a.yaml]", "a.yaml": application(1)["service"]}},
	"two files":            {false, map[string]string{"kustomization.yaml": "resources: [a.yaml]", "kustomization.yml": "resources: [a.yaml]", "a.yaml": application(1)["service"]}},
	"a cycle":              {false, map[string]string{"kustomization.yaml": "resources: [../b]", "../b/kustomization.yaml": "resources: [../root]"}},
	"itself":               {false, map[string]string{"kustomization.yaml": "resources: [.]"}},
	"parent":               {false, map[string]string{"kustomization.yaml": "resources: [..]", "../kustomization.yaml": "resources: [x.yaml]"}},
	"a missing file":       {false, map[string]string{"kustomization.yaml": "resources: [missing.yaml]"}},
	"an empty list":        {false, map[string]string{"kustomization.yaml": "resources: []"}},
	"an empty file":        {false, map[string]string{"kustomization.yaml": ""}},
	"a merged path":        {false, map[string]string{"kustomization.yaml": "resources: [\"x - ../y\"]", "y/kustomization.yaml": "resources: [a.yaml]", "y/a.yaml": application(1)["service"]}},
	"no manifests":         {false, map[string]string{"README.md": "text"}},
	"the same file twice":  {false, map[string]string{"kustomization.yaml": "resources: [a.yaml, ./a.yaml]", "a.yaml": application(1)["service"]}},
	"broken kustomization": {false, map[string]string{"kustomization.yaml": "resources: ["}},
}

func TestEveryDocumentTakesTheExpectedWayToTheSameObjects(t *testing.T) {
	for name, document := range documents {
		t.Run(name, func(t *testing.T) {
			dir := writeTree(t, map[string]string{
				"root/a.yaml": application(1)["configmap"], "root/b.yaml": document.text,
			})
			compare(t, filepath.Join(dir, "root"), dir, document.straight)
		})
	}
}

func TestEveryLayoutTakesTheExpectedWayToTheSameObjects(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for file, text := range layout.files {
				files[path.Join("root", file)] = text
			}
			dir := writeTree(t, files)
			compare(t, filepath.Join(dir, "root"), dir, layout.straight)
		})
	}
}

func TestAnyMixtureGivesTheSameObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var pool []string
	for name, document := range documents {
		if document.straight && !strings.HasPrefix(name, "no ") && !strings.HasPrefix(name, "keys") {
			pool = append(pool, document.text)
		}
	}
	for i := range 4 {
		for _, text := range application(i) {
			pool = append(pool, text)
		}
	}
	for round := range 60 {
		files := map[string]string{}
		for range 1 + random.IntN(12) {
			file := fmt.Sprintf("root/%c/%c.yaml", 'a'+random.IntN(3), 'a'+random.IntN(4))
			text := pool[random.IntN(len(pool))]
			if before, ok := files[file]; ok {
				text = before + "\n---\n" + text
			}
			files[file] = text
		}
		dir := writeTree(t, files)
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			compareWays(t, filepath.Join(dir, "root"), dir, "")
			compareWays(t, filepath.Join(dir, "root"), dir, "web")
		})
	}
}

func TestOnlyWhatANamespaceSurelyDoesNotTouchGoesStraight(t *testing.T) {
	for name, want := range map[string]bool{
		"cron job": true, "ingress": true, "list": true, "cluster role": true, "annotations": true, "same name, other group": true,
		"role binding": false, "webhook": false, "null metadata": false, "build annotations": false, "duplicate": false,
		"same name, other space": false, // two of one name in one namespace
	} {
		dir := writeTree(t, map[string]string{"root/a.yaml": application(1)["configmap"], "root/b.yaml": documents[name].text})
		if got := compareWays(t, filepath.Join(dir, "root"), dir, "web"); got != want {
			t.Errorf("%s: straight: %v, want %v", name, got, want)
		}
	}
}

// compare builds in three ways: straight, through kustomize on our tree, and with kustomize on the
// disk, where nothing of ours is in between.
func compare(t *testing.T, root, dir string, wantStraight bool) {
	t.Helper()
	if isStraight := compareWays(t, root, dir, ""); isStraight != wantStraight {
		t.Errorf("straight: %v, want %v", isStraight, wantStraight)
	}
	for _, namespace := range []string{"web", "other", "default", "123", "on"} {
		compareWays(t, root, dir, namespace)
	}
}

func compareWays(t *testing.T, root, dir, namespace string) (isStraight bool) {
	t.Helper()
	files, err := tree.Open(t.Context(), map[string]string{"": dir}, nil, tree.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	rel := "/" + filepath.Base(root)
	kustomization, err := readRoot(files, rel)
	if err != nil {
		return false // there is only one way to fail here
	}
	x := &Transformations{TargetNamespace: namespace}
	resources, _ := straight(files, rel, kustomization, x)
	if namespace != "" {
		kustomization.kustomization.Namespace = namespace
	}
	oracle, oracleErr := onDisk(root, &kustomization.kustomization, kustomization.file)
	isStraight = resources != nil
	if isStraight {
		objects, err := encode(resources)
		same(t, "straight", objects, err, oracle, oracleErr)
	}
	resources, err = customized(files, rel, kustomization, x)
	var objects []json.RawMessage
	if err == nil {
		objects, err = encode(resources)
	}
	same(t, "through kustomize", objects, err, oracle, oracleErr)
	return isStraight
}

func onDisk(root string, k *types.Kustomization, file string) ([]json.RawMessage, error) {
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	disk := filesys.MakeFsOnDisk()
	if err := disk.WriteFile(filepath.Join(root, file), data); err != nil {
		return nil, err
	}
	defer disk.RemoveAll(filepath.Join(root, file))
	options := &krusty.Options{LoadRestrictions: types.LoadRestrictionsNone, PluginConfig: types.DisabledPluginConfig()}
	resources, err := krusty.MakeKustomizer(options).Run(disk, root)
	if err != nil {
		return nil, err
	}
	var objects []json.RawMessage
	for _, r := range resources.Resources() {
		object, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if r.GetApiVersion() == "" {
			return nil, fmt.Errorf("no apiVersion")
		}
		if !isConfiguration(r) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func same(t *testing.T, way string, objects []json.RawMessage, err error, oracle []json.RawMessage, oracleErr error) {
	t.Helper()
	if (err == nil) != (oracleErr == nil) {
		t.Fatalf("%s: error %v, on disk %v", way, err, oracleErr)
	}
	got, want := lines(objects), lines(oracle)
	if got != want {
		t.Errorf("%s:\n%s\non disk:\n%s", way, got, want)
	}
}

func lines(objects []json.RawMessage) string {
	var text strings.Builder
	for _, object := range objects {
		text.Write(object)
		text.WriteByte('\n')
	}
	return text.String()
}
