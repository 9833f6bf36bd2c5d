// Package charts looks at charts and packages them, with Helm's own rules for what a chart is.
//
// Helm reads Chart.yaml, values and subcharts, judges them, and knows which files .helmignore leaves
// out. Files get here through this package: it follows no link, keeps to one root, and counts what it
// reads. Nothing here has a network: dependencies that are to be downloaded are the caller's.
package charts

import (
	"context"
	"encoding/json"

	"penstock.dev/engine/internal/call"
)

// Words for what went wrong; the caller has an error of its own for each.
const (
	noChart      = "ChartReference"  // there is no chart, or it is none
	noVersion    = "MetadataPatch"   // the version takes no such metadata
	noValues     = "ValuesFiles"     // a values file is missing or is none
	noPackage    = "ChartPackage"    // the chart cannot be read or packaged
	noDependency = "DependencyBuild" // a dependency cannot be had or is another chart
)

// limits bound a chart, see toolkit/chart/limits.py.
type limits struct {
	ChartBytes    int64 `json:"chartBytes"`
	UnpackedBytes int64 `json:"unpackedBytes"`
	FileBytes     int64 `json:"fileBytes"`
	Files         int   `json:"files"`
	PathDepth     int   `json:"pathDepth"`
	MetadataBytes int   `json:"metadataBytes"`
	Dependencies  int   `json:"dependencies"`
	ValuesFiles   int   `json:"valuesFiles"`
	IgnoreRules   int   `json:"ignoreRules"`
}

// source is a chart: a directory or a package at Path below Root.
type source struct {
	Root   string `json:"root"`
	Path   string `json:"path"`
	Limits limits `json:"limits"`
}

type inspected struct {
	Name        string       `json:"name"`
	Version     string       `json:"version"`
	IsDirectory bool         `json:"isDirectory"`
	Missing     []dependency `json:"missing"`
}

type packageRequest struct {
	source
	Out                      string   `json:"out"`
	Metadata                 string   `json:"metadata"`
	ValuesFiles              []string `json:"valuesFiles"`
	ValuesInChart            bool     `json:"valuesInChart"`
	IgnoreMissingValuesFiles bool     `json:"ignoreMissingValuesFiles"`
	Fetched                  []string `json:"fetched"`
}

type built struct {
	Name            string   `json:"name"`
	Version         string   `json:"version"`
	OriginalVersion string   `json:"originalVersion"`
	ValuesFiles     []string `json:"valuesFiles"`
	Dependencies    int      `json:"dependencies"`
	Packaged        bool     `json:"packaged"`
}

// Inspect returns which chart there is, and which of its dependencies have to be fetched.
func Inspect(_ context.Context, body []byte) ([]byte, error) {
	var request source
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	found, err := request.inspect()
	if err != nil {
		return nil, err
	}
	return json.Marshal(found)
}

// Package writes a chart as a package, with another version, merged values and its dependencies.
func Package(_ context.Context, body []byte) ([]byte, error) {
	var request packageRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	done, err := request.build()
	if err != nil {
		return nil, err
	}
	return json.Marshal(done)
}

var _ call.Operation = Inspect
