package helm

import (
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/postrenderer"
)

func (r *run) postRenderStrategy() action.PostRenderStrategy {
	if r.Options.PostRenderStrategy == "" {
		return action.PostRenderStrategyCombined
	}
	return action.PostRenderStrategy(r.Options.PostRenderStrategy)
}

func (r *run) postRenderer() postrenderer.PostRenderer { return nil }
