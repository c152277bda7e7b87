package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
)

// proxyTimeout bounds the reading of one proxy's configuration.
const proxyTimeout = 2 * time.Minute

// proxiesAtATime is how many proxies of a lab are read at a time, and held.
const proxiesAtATime = 8

// Dial makes a client for a port of a pod, and what ends its connections.
type Dial func(namespace, pod string, port int) (client *http.Client, hangUp func() error)

// DialEach dials each pod by a line of its own, which ends with it: there may be thousands.
func DialEach(config *rest.Config) Dial {
	return func(namespace, pod string, port int) (*http.Client, func() error) {
		dialer := lab.NewDialer(config)
		return dialer.Client(namespace, pod, port), dialer.Close
	}
}

// labFilters lists the mesh's EnvoyFilters. Where that may not be done, what
// they add stays unattributed, and the note says so.
func labFilters(ctx context.Context, kube kubernetes.Interface) (scope.Filters, string) {
	body, err := kube.CoreV1().RESTClient().Get().AbsPath("/apis/networking.istio.io/v1alpha3/envoyfilters").Stream(ctx)
	if apierrors.IsNotFound(err) {
		return nil, "" // there is no such kind of object
	}
	if err == nil {
		defer body.Close()
		var filters scope.Filters
		if filters, err = scope.ReadFilters(body); err == nil {
			return filters, ""
		}
	}
	return nil, fmt.Sprintf("EnvoyFilters could not be listed, so what they add is unattributed: %v", err)
}

// GetAdmin streams an answer of an Envoy's admin interface, which an
// observe.EnvoyAdmin would hold whole.
func GetAdmin(ctx context.Context, client *http.Client, path string, f func(io.Reader) error) error {
	body, err := get(ctx, client, "http://pod"+path)
	if err != nil {
		return err
	}
	defer body.Close()
	return f(body)
}
