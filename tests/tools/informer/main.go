// informer follows one resource as controllers do, with client-go, and prints every change as a line
// of JSON: type and object, and SYNCED once it has read what there is.
//
//	informer <kubeconfig> <group>/<version>/<resource> [metadata]
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Type   string `json:"type"`
	Object any    `json:"object,omitempty"`
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	parts := strings.Split(os.Args[2], "/")
	resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	informer := follow(config, resource, len(os.Args) > 3)

	var mutex sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(kind string, object any) {
		mutex.Lock()
		defer mutex.Unlock()
		if err := out.Encode(line{kind, object}); err != nil {
			log.Fatal(err)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("ADDED", object) },
		UpdateFunc: func(_, object any) { say("MODIFIED", object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			say("DELETED", object)
		},
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go informer.Run(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		say("SYNCED", nil)
	}
	<-ctx.Done()
}

func follow(config *rest.Config, resource schema.GroupVersionResource, partial bool) cache.SharedIndexInformer {
	if partial {
		client := metadata.NewForConfigOrDie(config)
		return metadatainformer.NewSharedInformerFactory(client, 0).ForResource(resource).Informer()
	}
	client := dynamic.NewForConfigOrDie(config)
	return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer()
}
