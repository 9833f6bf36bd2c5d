package charts

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// mergeValues makes values.yaml of the values files, each over those before it. A null stays: it is
// Helm that drops the key, when it renders. Integers keep all their digits.
func (j *job) mergeValues(r *packageRequest, done *built) error {
	if len(r.ValuesFiles) == 0 {
		return nil
	}
	if len(r.ValuesFiles) > j.Limits.ValuesFiles {
		return failed(noValues, "more than %d values files are not merged", j.Limits.ValuesFiles)
	}
	merged := map[string]any{}
	for _, name := range r.ValuesFiles {
		data, err := j.values(name, r.ValuesInChart)
		if err != nil {
			return err
		}
		if data == nil && r.IgnoreMissingValuesFiles {
			continue
		}
		if data == nil {
			return failed(noValues, "spec.valuesFiles: there is no file '%s'; "+
				"spec.ignoreMissingValuesFiles would go on without it", name)
		}
		above := map[string]any{}
		if err := yaml.Unmarshal(data, &above, keepDigits); err != nil {
			return failed(noValues, "spec.valuesFiles: '%s' cannot be read: %w", name, err)
		}
		merged = loader.MergeMaps(merged, above)
		done.ValuesFiles = append(done.ValuesFiles, name)
	}
	data, err := yaml.Marshal(merged)
	if err != nil {
		return failed(noValues, "spec.valuesFiles: %w", err)
	}
	j.files[valuesFile] = data
	return nil
}

func keepDigits(decoder *json.Decoder) *json.Decoder {
	decoder.UseNumber()
	return decoder
}

// values returns the content of a values file of the chart or of the source, nil if there is none.
func (j *job) values(name string, inChart bool) ([]byte, error) {
	if inChart {
		if slices.Contains(strings.Split(name, "/"), "..") {
			return nil, failed(noValues, "spec.valuesFiles: '%s' %w", name, errLeadsOut)
		}
		return j.files[path.Clean(strings.TrimLeft(name, "/"))], nil
	}
	found, info, err := j.tree.find(name)
	if err != nil {
		return nil, failed(noValues, "spec.valuesFiles: '%s' %w", name, err)
	}
	if info == nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	data, err := j.tree.readFile(found)
	if err != nil {
		return nil, failed(noValues, "spec.valuesFiles: %w", err)
	}
	return append([]byte{}, data...), nil
}
