package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"penstock.dev/engine/internal/parent"
)

// storageSeconds is how much longer than the action its history may be written: a release whose
// action was ended must be marked as failed, or it stays pending.
const storageSeconds = 10

// maxChart bounds a packaged chart.
const maxChart = 64 << 20

// run is one action on its way.
type run struct {
	*Request
	ctx       context.Context
	config    *action.Configuration
	cluster   *cluster
	kube      *client
	secrets   corev1.SecretInterface // where the records are
	journal   *journal
	log       *journalist
	releasing string // install or upgrade, if the action is one of them
	// unchecked is what the values were not validated by
	unchecked []string
}

// do is what an action does; the journal knows which records it wrote.
type do func(*run) error

// operation makes an operation of package call.
func operation(act do) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, in []byte) ([]byte, error) {
		request, err := decode(in)
		if err != nil {
			return nil, err
		}
		session, ctx, err := parent.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer session.End()
		return perform(ctx, session, request, act)
	}
}

func perform(ctx context.Context, session *parent.Session, request *Request, act do) ([]byte, error) {
	if request.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.timeout())
		defer cancel()
	}
	keeping, stop := outliving(ctx, storageSeconds*time.Second)
	defer stop()
	r := &run{Request: request, ctx: ctx}
	err := r.prepare(keeping, session)
	if err == nil {
		if err = act(r); err != nil {
			r.settle(err)
		}
	}
	if err != nil {
		return nil, r.explain(err)
	}
	answer, err := r.answer()
	if err != nil {
		return nil, r.explain(err)
	}
	return json.Marshal(answer)
}

// outliving returns a context that ends some time after ctx.
func outliving(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

func (r *run) prepare(keeping context.Context, session *parent.Session) error {
	var err error
	acting := &known{inner: session.As(r.ctx, "release"), owned: ownedBy(r.Request)}
	if r.cluster, err = enter(r.Cluster, acting); err != nil {
		return err
	}
	// Clients of all groups would take a millisecond for each action.
	keeper, err := corev1.NewForConfig(config(session.As(keeping, "storage")))
	if err != nil {
		return err
	}
	r.log = &journalist{redact: func(text string) string { return r.redact(text, nil) }, kept: &lines{}}
	slog.SetDefault(slog.New(r.log)) // parts of Helm log there
	kube.ManagedFieldsManager = r.Manager
	where := getter{r.cluster, r.Namespace}
	r.kube = &client{ctx: r.ctx, Client: kube.New(where), built: func() {}, known: acting, cluster: r.cluster}
	r.kube.Namespace = r.Namespace
	r.kube.SetLogger(r.log)
	r.secrets = keeper.Secrets(r.StorageNamespace)
	r.journal = newJournal(r.secrets, r.redact)
	r.config = action.NewConfiguration(action.ConfigurationSetLogger(r.log))
	r.config.RESTClientGetter = where
	r.config.KubeClient = r.kube
	r.config.Releases = storage.Init(r.journal)
	r.config.Releases.MaxHistory = r.Options.MaxHistory
	r.config.HookOutputFunc = func(string, string, string) io.Writer { return io.Discard }
	return nil
}

func (r *run) waiting() []kube.WaitOption { return []kube.WaitOption{kube.WithWaitContext(r.ctx)} }

// prepared reads the chart, applies its definitions, and asks for what the API server serves. The
// action is "install" or "upgrade".
func (r *run) prepared(action string) (*chartv2.Chart, error) {
	r.releasing = action
	chart, err := read(r.Request)
	if err != nil {
		return nil, err
	}
	if err := r.define(chart); err != nil {
		return nil, err
	}
	r.config.Capabilities, err = r.cluster.fill()
	return chart, err
}

// read reads the chart of a request: a package, or the directory of one.
func read(request *Request) (*chartv2.Chart, error) {
	chart, err := load(request.Chart)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	if version := request.Options.ChartVersion; version != "" {
		chart.Metadata.Version = version
	}
	return chart, nil
}

func load(name string) (*chartv2.Chart, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, withoutPath(err)
	} else if info.IsDir() {
		return loader.LoadDir(name)
	}
	return loader.LoadArchive(io.LimitReader(file, maxChart))
}

// withoutPath returns an error that does not tell where files are on this machine.
func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// Load is an operation that needs no cluster: it returns what is told of a chart.
func Load(_ context.Context, in []byte) ([]byte, error) {
	request, err := decode(in)
	if err != nil {
		return nil, err
	}
	chart, err := read(request)
	if err != nil {
		return nil, err
	}
	values := chart.Values
	if values == nil {
		values = map[string]any{}
	}
	about := &Chart{chart.Metadata.Name, chart.Metadata.Version, chart.Metadata.AppVersion, values}
	return json.Marshal(Answer{Chart: about})
}
