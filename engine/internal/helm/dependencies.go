package helm

import (
	"maps"

	"helm.sh/helm/v4/pkg/chart/common"
	valuesutil "helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	rcommon "helm.sh/helm/v4/pkg/release/common"
)

// enabled returns the chart without the dependencies that the values disable, and with the others under
// their aliases. An action of Helm does the same to the chart that it is given, and not twice: so this
// works on a copy.
func (r *run) enabled(chart *chartv2.Chart) (*chartv2.Chart, error) {
	if len(chart.Dependencies()) == 0 {
		return chart, nil
	}
	values, err := r.chosen()
	if err != nil {
		return nil, err
	}
	copied := copyOf(chart)
	return copied, chartutil.ProcessDependencies(copied, values)
}

// chosen are the values that decide: those of the request, and those of the last release that it keeps.
func (r *run) chosen() (common.Values, error) {
	values := maps.Clone(r.Values)
	if !r.Options.ReuseValues {
		return values, nil
	}
	records, err := r.releases()
	if err != nil || len(records) == 0 {
		return values, err
	}
	kept := records[0]
	for _, each := range records {
		if each.Info.Status == rcommon.StatusDeployed {
			kept = each
			break
		}
	}
	if kept.Config == nil {
		return values, nil
	}
	before, err := copyValues(kept.Config)
	if err != nil {
		return nil, err
	}
	return valuesutil.CoalesceTables(values, before), nil
}

// copyValues returns a deep copy: merged into a chart without values, they stay as they are.
func copyValues(values map[string]any) (map[string]any, error) {
	return valuesutil.MergeValues(&chartv2.Chart{Metadata: &chartv2.Metadata{}}, values)
}

// copyOf copies what processing dependencies changes.
func copyOf(chart *chartv2.Chart) *chartv2.Chart {
	copied, metadata := *chart, *chart.Metadata
	metadata.Dependencies = nil
	for _, each := range chart.Metadata.Dependencies {
		if each != nil {
			dependency := *each
			metadata.Dependencies = append(metadata.Dependencies, &dependency)
		}
	}
	copied.Metadata = &metadata
	copied.SetDependencies()
	for _, each := range chart.Dependencies() {
		copied.AddDependency(copyOf(each))
	}
	return &copied
}

// given returns the values to give to an action: those of the request, and what makes nulls of the chart
// count. The record gets those of the request.
func (r *run) given(chart *chartv2.Chart) (map[string]any, error) {
	if r.Options.ReuseValues || len(chart.Dependencies()) == 0 {
		return r.Values, nil // the values of the last release stand for those of the chart
	}
	enabled, err := r.enabled(chart)
	if err != nil {
		return nil, err
	}
	values, err := copyValues(r.Values)
	if err != nil || !nulled(enabled, values, nil) {
		return r.Values, err
	}
	r.journal.config = r.Values
	return values, nil
}
