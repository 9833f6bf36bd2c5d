package helm

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/postrenderer"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"penstock.dev/engine/internal/kustomize"
)

func (r *run) postRenderStrategy() action.PostRenderStrategy {
	if r.Options.PostRenderStrategy == "" {
		return action.PostRenderStrategyCombined
	}
	return action.PostRenderStrategy(r.Options.PostRenderStrategy)
}

func (r *run) postRenderer() postrenderer.PostRenderer {
	common := &r.Options.CommonMetadata
	if len(r.Options.PostRenderers)+len(common.Labels)+len(common.Annotations)+len(r.Options.Carriers.Label) == 0 {
		return nil
	}
	return postRenderer{r.ctx, &r.Options}
}

// postRenderer changes rendered objects: encrypted Secrets are exchanged for their carriers, each
// kustomization works on what the one before it left, and the common metadata come last.
type postRenderer struct {
	ctx     context.Context
	options *Options
}

// Run implements postrenderer.PostRenderer.
func (p postRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	text, err := p.options.Carriers.exchange(rendered.Bytes())
	if err != nil {
		return nil, fmt.Errorf("spec.decryption: %w", err)
	}
	for i := range p.options.PostRenderers {
		if len(bytes.TrimSpace(text)) == 0 {
			break // kustomize refuses to build nothing
		}
		if text, err = kustomize.Render(p.ctx, text, p.options.PostRenderers[i]); err != nil {
			return nil, fmt.Errorf("spec.postRenderers[%d]: %w%s", i, err, p.options.apart(err))
		}
	}
	text, err = p.options.CommonMetadata.mark(text)
	return bytes.NewBuffer(text), err
}

// apart returns what to do if a build has the same object twice: a chart may have a hook and an object
// of one name, of which Helm deletes one before it creates the other.
func (o *Options) apart(err error) string {
	combined := o.PostRenderStrategy == "" || o.PostRenderStrategy == string(action.PostRenderStrategyCombined)
	if !combined || !strings.Contains(err.Error(), "already registered id") {
		return ""
	}
	return ": if the other one is a hook, set spec.postRenderStrategy to separate or nohooks"
}

// mark adds the metadata to every object of a manifest.
func (c *CommonMetadata) mark(text []byte) ([]byte, error) {
	if len(c.Labels)+len(c.Annotations) == 0 {
		return text, nil
	}
	objects, err := kio.ParseAll(string(text))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		for key, value := range c.Labels {
			if err := object.PipeE(yaml.SetLabel(key, value)); err != nil {
				return nil, err
			}
		}
		for key, value := range c.Annotations {
			if err := object.PipeE(yaml.SetAnnotation(key, value)); err != nil {
				return nil, err
			}
		}
	}
	marked, err := kio.StringAll(objects)
	return []byte(marked), err
}
