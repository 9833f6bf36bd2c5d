package kustomize

import (
	"fmt"
	"testing"
)

func BenchmarkBuild(b *testing.B) {
	for _, size := range []int{4, 100, 1000} {
		files := map[string]string{}
		for i := range size / 4 {
			for kind, text := range application(i) {
				files[fmt.Sprintf("%03d/%s.yaml", i, kind)] = text
			}
		}
		dir := writeTree(b, files)
		for name, x := range map[string]Transformations{"straight": {}, "namespace": {TargetNamespace: "web"}, "kustomize": {IgnoreMissingComponents: true, BuildMetadata: []string{"managedByLabel"}}} {
			b.Run(fmt.Sprintf("%d/%s", size, name), func(b *testing.B) {
				for b.Loop() {
					if _, err := buildDir(b.Context(), dir, ".", x); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
