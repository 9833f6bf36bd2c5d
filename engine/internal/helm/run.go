package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"

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
	ctx     context.Context
	config  *action.Configuration
	cluster *cluster
}

// do is what an action does: it returns what the answer holds, also beside an error.
type do func(*run) (any, error)

// operation makes an operation of package call.
func operation(act do) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, in []byte) ([]byte, error) {
		request, err := read(in)
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
	r, err := prepare(ctx, keeping, session, request)
	if err != nil {
		return nil, explain(ctx, request, nil, err)
	}
	answer, err := act(r)
	if err != nil {
		return nil, explain(ctx, request, answer, err)
	}
	return json.Marshal(answer)
}

// outliving returns a context that ends some time after ctx.
func outliving(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

func prepare(ctx, keeping context.Context, session *parent.Session, request *Request) (*run, error) {
	c, err := enter(request.Cluster, session.As(ctx, "release"))
	if err != nil {
		return nil, err
	}
	secrets, err := kubernetes.NewForConfig(config(session.As(keeping, "storage")))
	if err != nil {
		return nil, err
	}
	kube.ManagedFieldsManager = request.Manager
	silent := slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})
	client := kube.New(getter{c, request.Namespace})
	client.Namespace = request.Namespace
	client.SetLogger(silent)
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(silent))
	configuration.RESTClientGetter = getter{c, request.Namespace}
	configuration.KubeClient = reachable{client}
	configuration.Releases = storage.Init(driver.NewSecrets(secrets.CoreV1().Secrets(request.StorageNamespace)))
	configuration.Releases.MaxHistory = request.Options.MaxHistory
	configuration.HookOutputFunc = func(string, string, string) io.Writer { return io.Discard }
	return &run{Request: request, ctx: ctx, config: configuration, cluster: c}, nil
}

// reachable does not ask for the server's version before each action.
type reachable struct{ *kube.Client }

func (reachable) IsReachable() error { return nil }

func (r *run) waiting() []kube.WaitOption { return []kube.WaitOption{kube.WithWaitContext(r.ctx)} }

// chart reads the chart, and the capabilities for its templates. A chart with definitions changes
// them, so Helm itself asks for them after it has created those.
func (r *run) chart() (*chartv2.Chart, error) {
	file, err := os.Open(r.Chart)
	if err != nil {
		return nil, fmt.Errorf("opening the chart: %w", err)
	}
	defer file.Close()
	chart, err := loader.LoadArchive(io.LimitReader(file, maxChart))
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	if len(chart.CRDObjects()) == 0 {
		r.config.Capabilities, err = r.cluster.fill()
	}
	return chart, err
}
