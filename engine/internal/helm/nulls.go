package helm

import (
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// nulled makes the nulls in the values of a chart remove defaults of its dependencies, as the chart's
// author means them.
//
// Helm drops them while it copies what the values of the request do not name
// (pkg/chart/common/util/coalesce.go, cleanNilValues). It does not look into what the request names, so
// each dependency that a null concerns is named, with nothing below it. A null among the global values
// is given to the dependencies: for the chart itself, it stays absent.
//
// The chart has its dependencies processed (enabled). It tells whether anything was added.
func nulled(chart *chartv2.Chart, values, globals map[string]any) bool {
	globals = nullsOf(globals, table(chart.Values, "global"))
	added := false
	for _, each := range chart.Dependencies() {
		name := each.Name()
		given, named := values[name]
		below, isTable := given.(map[string]any)
		if named && !isTable {
			continue // Helm tells
		}
		if !named {
			below = map[string]any{}
		}
		more := nulled(each, below, globals)
		more = addGlobals(below, globals) || more
		if !named && (more || holdsNull(table(chart.Values, name))) {
			values[name] = below
			more = true
		}
		added = added || more
	}
	return added
}

// addGlobals adds nulls to the global values of a dependency unless they are set.
func addGlobals(below, nulls map[string]any) bool {
	if len(nulls) == 0 {
		return false
	}
	return fill(below, map[string]any{"global": nulls})
}

func fill(values, nulls map[string]any) bool {
	added := false
	for key, null := range nulls {
		value, named := values[key]
		own, isTable := value.(map[string]any)
		below, deep := null.(map[string]any)
		switch {
		case !deep && !named:
			values[key], added = nil, true
		case deep && !named:
			own = map[string]any{}
			values[key] = own
			added = fill(own, below) || added
		case deep && isTable:
			added = fill(own, below) || added
		}
	}
	return added
}

// nullsOf returns the nulls in values, and those of a level above unless the values set them.
func nullsOf(above, values map[string]any) map[string]any {
	nulls := map[string]any{}
	for key, null := range above {
		if _, set := values[key]; !set {
			nulls[key] = null
		}
	}
	for key, value := range values {
		switch value := value.(type) {
		case nil:
			nulls[key] = nil
		case map[string]any:
			before, _ := above[key].(map[string]any)
			if below := nullsOf(before, value); len(below) > 0 {
				nulls[key] = below
			}
		}
	}
	return nulls
}

// holdsNull tells whether there is a null somewhere in values.
func holdsNull(values map[string]any) bool { return len(nullsOf(nil, values)) > 0 }

func table(values map[string]any, name string) map[string]any {
	found, _ := values[name].(map[string]any)
	return found
}
