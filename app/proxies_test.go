package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// Few proxies are read at a time and held, and each is taken in their order.
func TestInGroups(t *testing.T) {
	var held, most, reading, side atomic.Int64
	items, taken := make([]int, 30), []int{}
	for i := range items {
		items[i] = i
	}
	read := func(i int) (int, error) {
		side.Store(max(side.Load(), reading.Add(1)))
		defer reading.Add(-1)
		most.Store(max(most.Load(), held.Add(1)))
		time.Sleep(time.Duration(8-i%8) * time.Millisecond) // the last is the first to be done
		if i == 5 {
			return 0, errors.New("no answer")
		}
		return i, nil
	}
	take := func(i int, err error) error {
		held.Add(-1)
		if err != nil {
			i = -1
		}
		if taken = append(taken, i); i == 20 {
			return errors.New("enough")
		}
		return nil
	}
	if err := inGroups(items, 8, read, take); err == nil || err.Error() != "enough" {
		t.Error(err)
	}
	want := append([]int{0, 1, 2, 3, 4, -1}, items[6:21]...)
	if !slices.Equal(taken, want) {
		t.Errorf("%v, want %v", taken, want)
	}
	if most.Load() > 8 || side.Load() < 2 {
		t.Errorf("%d were held, %d were read at a time", most.Load(), side.Load())
	}
}

// A ztunnel among a lab's proxies is read.
func TestReadProxyOfZtunnel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/config_dump" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, "../advise/scope/testdata/ztunnel.json")
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}}
	p, err := readProxy(t.Context(), client, "istio-system/ztunnel-a", scope.Options{})
	if err != nil || p.Kind != scope.NodeZtunnel || p.Resources == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The mesh's configuration is looked for where the revision has it; who may not list
// istiods gets that of Istio's charts, and a note.
func TestMeshConfigMap(t *testing.T) {
	istiod := func(revision string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istiod-" + revision, Labels: map[string]string{"app": "istiod", "istio.io/rev": revision}}}
	}
	kube := fakecluster.New(istiod("canary"))
	if name, note, err := meshConfigMap(t.Context(), kube, ""); name != "istio-canary" || note != "" || err != nil {
		t.Errorf("%s, %s, %v", name, note, err)
	}
	if _, _, err := meshConfigMap(t.Context(), fakecluster.New(istiod("canary"), istiod("stable")), ""); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--revision") {
		t.Errorf("several: %v", err)
	}
	for revision, want := range map[string]string{"": "istio", "default": "istio", "canary": "istio-canary"} {
		if name, note, err := meshConfigMap(t.Context(), fakecluster.New(), revision); name != want || !strings.Contains(note, "using ConfigMap "+want) || err != nil {
			t.Errorf("none, asked for %q: %s, %s, %v", revision, name, note, err)
		}
	}
}
