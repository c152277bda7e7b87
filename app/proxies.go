package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
)

// proxyTimeout bounds the reading of one proxy's configuration.
const proxyTimeout = 2 * time.Minute

// proxiesAtATime is how many proxies of a lab are read at a time, and held.
const proxiesAtATime = 8

// Proxies say which proxies of a cluster are read, and what of them.
type Proxies struct {
	Namespace, Selector string
	// Choose, if set, selects the pods that are read, of all that have a proxy, in order.
	Choose func([]corev1.Pod) []corev1.Pod
	Say    func(text string) // told of progress
	// Dial reaches a port of a pod until the returned function is called.
	Dial Dial
}

// Dial makes a client for a port of a pod, and what ends its connections.
type Dial func(namespace, pod string, port int) (client *http.Client, hangUp func() error)

// DialEach dials each pod by a line of its own, which ends with it: there may be thousands.
func DialEach(config *rest.Config) Dial {
	return func(namespace, pod string, port int) (*http.Client, func() error) {
		dialer := lab.NewDialer(config)
		return dialer.Client(namespace, pod, port), dialer.Close
	}
}

// Read reads the configuration of the running proxies, some at a time, and has each
// taken in their order. A proxy that cannot be read is a note, unless none can.
func (r Proxies) Read(ctx context.Context, kube kubernetes.Interface, o scope.Options, take func(scope.Proxy) error) (notes []string, err error) {
	list, err := kube.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.Selector, FieldSelector: "status.phase=Running"})
	if err != nil {
		return nil, fmt.Errorf("list the lab's pods: %w", err)
	}
	if o.Filters == nil {
		var note string
		if o.Filters, note = labFilters(ctx, kube); note != "" {
			notes = append(notes, note)
		}
	}
	sidecars := Istio().Proxies(record.PlaceSidecar)
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !hasProxy(pod, sidecars.Containers) })
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if r.Choose != nil {
		pods = r.Choose(pods)
	}
	if len(pods) == 0 {
		return nil, errs.WithHint(fmt.Errorf("no running pod with a sidecar"), "to check: kubectl get pods --all-namespaces")
	}
	r.Say("reading " + words.Plural(len(pods), "sidecar"))
	read := func(pod corev1.Pod) (scope.Proxy, error) {
		client, hangUp := r.Dial(pod.Namespace, pod.Name, sidecars.AdminPort)
		defer hangUp()
		return readProxy(ctx, client, pod.Namespace+"/"+pod.Name, o)
	}
	asked, had := 0, 0
	var last error
	err = inGroups(pods, proxiesAtATime, read, func(p scope.Proxy, failure error) error {
		asked++
		r.Say(fmt.Sprintf("read %d of %s", asked, words.Plural(len(pods), "sidecar")))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case failure != nil:
			last = failure
			notes = append(notes, fmt.Sprintf("not read: %v", failure))
			return nil
		}
		had++
		return take(p)
	})
	if err == nil && had == 0 {
		err = last
	}
	return notes, err
}

// inGroups reads items, some at a time, and has each taken, in their order, before the
// next ones are read: no more are held.
func inGroups[T, V any](items []T, some int, read func(T) (V, error), take func(V, error) error) error {
	for group := range slices.Chunk(items, some) {
		values, failures := make([]V, len(group)), make([]error, len(group))
		var wait sync.WaitGroup
		for i, item := range group {
			wait.Go(func() { values[i], failures[i] = read(item) })
		}
		wait.Wait()
		for i := range group {
			if err := take(values[i], failures[i]); err != nil {
				return err
			}
		}
	}
	return nil
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

// hasProxy also finds sidecars that run as init containers.
func hasProxy(pod corev1.Pod, names []string) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range containers {
			if slices.Contains(names, c.Name) {
				return true
			}
		}
	}
	return false
}

func readProxy(ctx context.Context, client *http.Client, name string, o scope.Options) (p scope.Proxy, err error) {
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	err = GetAdmin(ctx, client, "/config_dump?include_eds", func(r io.Reader) error {
		p, err = scope.ReadDump(r, name, o)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("proxy of pod %s: %w", name, err)
	}
	return p, nil
}

// GetAdmin streams an answer of an Envoy's admin interface, which an
// observe.EnvoyAdmin would hold whole.
func GetAdmin(ctx context.Context, client *http.Client, path string, f func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pod"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("%s: %s: %s", path, resp.Status, strings.TrimSpace(string(text)))
	}
	return f(resp.Body)
}
