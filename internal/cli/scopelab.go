package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/rights"
	"github.com/meshtrial/meshtrial/scope"
)

// scopeTimeout bounds the reading of one proxy's configuration.
const scopeTimeout = 2 * time.Minute

// labProxies reads the configuration of the running proxies, one after the
// other. A proxy that cannot be read is a note, unless none can.
func labProxies(ctx context.Context, env *Env, f scopeFlags, o scope.Options) (proxies []scope.Proxy, notes []string, err error) {
	config, err := readConfig(ctx, f.lab, f.kubeconfig, f.context, needed(placesOf(nil, f.namespace), rights.Reach, rights.Scope))
	if err != nil {
		return nil, nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	list, err := kube.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: f.selector, FieldSelector: "status.phase=Running"})
	if err != nil {
		return nil, nil, fmt.Errorf("list the lab's pods: %w", err)
	}
	if f.filters == "" {
		var note string
		if o.Filters, note = labFilters(ctx, kube); note != "" {
			notes = append(notes, note)
		}
	}
	sidecars := (&istio.Mesh{}).Proxies(record.PlaceSidecar)
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !hasProxy(pod, sidecars.Containers) })
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if f.choose != nil {
		pods = f.choose(pods)
	}
	if len(pods) == 0 {
		return nil, nil, errs.WithHint(fmt.Errorf("no running pod with a sidecar"), "look with: kubectl get pods --all-namespaces")
	}
	if f.proxies > 0 && len(pods) > f.proxies {
		notes = append(notes, fmt.Sprintf("%d of %d proxies were read; --proxies 0 reads all", f.proxies, len(pods)))
		pods = pods[:f.proxies]
	}
	dialer := lab.NewDialer(config)
	defer dialer.Close()
	line := newProgress(env.Stderr)
	defer line.clear()
	for i, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		line.say("reading proxy %d of %d: %s", i+1, len(pods), name)
		p, failure := readProxy(ctx, dialer.Client(pod.Namespace, pod.Name, sidecars.AdminPort), name, f, o)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case failure != nil:
			err = failure
			notes = append(notes, fmt.Sprintf("not read: %v", failure))
		default:
			proxies = append(proxies, p)
		}
	}
	if len(proxies) == 0 {
		return nil, nil, err
	}
	return proxies, notes, nil
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
	return nil, fmt.Sprintf("EnvoyFilters could not be listed, so that what they add is unattributed: %v", err)
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

func readProxy(ctx context.Context, client *http.Client, name string, f scopeFlags, o scope.Options) (p scope.Proxy, err error) {
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	err = getAdmin(ctx, client, "/config_dump?include_eds", func(r io.Reader) error {
		p, err = scope.ReadDump(r, name, o)
		return err
	})
	if err == nil && f.each != nil {
		err = getAdmin(ctx, client, "/config_dump", func(r io.Reader) error { return f.each(name, r) })
	}
	if err == nil && f.stats {
		err = getAdmin(ctx, client, "/clusters?format=json", func(r io.Reader) error {
			calls, err := scope.ReadCalls(r)
			p.SetCalls(calls)
			return err
		})
	}
	if err != nil {
		return p, fmt.Errorf("proxy of pod %s: %w", name, err)
	}
	return p, nil
}

// getAdmin streams an answer of an Envoy's admin interface, which an
// observe.EnvoyAdmin would hold whole.
func getAdmin(ctx context.Context, client *http.Client, path string, f func(io.Reader) error) error {
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
