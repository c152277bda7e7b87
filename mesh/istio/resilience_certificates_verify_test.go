//go:build verify

package istio_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Short-lived certificates expire while istiod is unavailable: peers refuse new
// connections, and accept them again once it is back.
func TestCertificatesExpireOnIstio(t *testing.T) {
	l := labtest.Start(t)
	m := istio.New(l.Images())
	s := scene{t: t, lab: l, mesh: m, dialer: lab.NewDialer(l.RESTConfig())}
	defer s.dialer.Close()
	ctx := t.Context()
	proxy := &mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": mesh.TelemetryLedger, "concurrency": "1", "cpu_limit": "none"}}
	short := *proxy
	short.CertificateTTL = 20 * time.Second
	s.up(mesh.Workload{Name: "bar", Namespace: resilient, Proxy: &short, ControlPort: 15900},
		mesh.Workload{Name: "clients", Namespace: resilient, Proxy: proxy, ControlPort: 15901})
	if failed := s.request("mm-ex-0-1", 5); failed != 0 {
		t.Fatalf("%d of 5 requests failed before", failed)
	}
	kube := kubeOf(t, l)
	replicas := func(n int32) {
		deployments := kube.AppsV1().Deployments(istio.Namespace)
		patch := fmt.Appendf(nil, `{"spec": {"replicas": %d}}`, n)
		_, err := deployments.Patch(context.WithoutCancel(ctx), "istiod", types.MergePatchType, patch, metav1.PatchOptions{})
		must.OK(t, err)
	}
	replicas(0)
	defer func() {
		replicas(1)
		if err := lab.WaitDeployment(ctx, kube, istio.Namespace, "istiod"); err != nil {
			t.Error(err)
		}
	}()
	pod := s.pods("bar")[0].Name
	until := func(what string, ok func(mesh.Certificate) bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			answer, err := s.admin(pod).Get(ctx, m.CertificatePath(), nil)
			must.OK(t, err)
			c, err := m.Certificate(answer)
			must.OK(t, err)
			if ok(c) {
				t.Logf("%s after %v: %+v", what, time.Since(began), c)
				return
			}
			if time.Since(began) > 4*time.Minute {
				t.Fatalf("not %s: %+v at %v", what, c, time.Now())
			}
		}
	}
	until("expired", func(c mesh.Certificate) bool { return c.ExpiredAt(time.Now()) })
	if failed := s.request("mm-ex-0-2", 5); failed != 0 {
		t.Errorf("%d of 5 requests failed that had connections from before", failed)
	}
	if failed := s.requests("mm-ex-0-3", 40, 40, load.Burst); failed < 10 {
		t.Errorf("%d of 40 requests failed, though nearly all need new connections", failed)
	}
	s.logged("clients", "mm-ex-0-3", 80, 10*time.Second) // a line per request, and one per attempt
	for _, e := range s.entries("clients", "mm-ex-0-3") {
		if e.Status != 200 && !strings.Contains(e.Transport, "CERTIFICATE_VERIFY_FAILED") {
			t.Errorf("failed otherwise: %+v", e)
		}
	}
	began := time.Now()
	replicas(1)
	until("renewed", func(c mesh.Certificate) bool { return !c.ExpiredAt(time.Now()) })
	t.Logf("renewed %v after istiod was asked to come back", time.Since(began))
	// The proxy reports a certificate before each of its threads has it, which
	// takes a moment on a busy machine.
	failed := int64(0)
	for i := range 20 {
		if failed = s.requests(fmt.Sprintf("mm-ex-0-%d", 4+i), 40, 40, load.Burst); failed == 0 {
			break
		}
		t.Logf("%d of 40 requests failed at once after", failed)
		time.Sleep(time.Second)
	}
	if failed != 0 {
		t.Errorf("%d of 40 requests failed after", failed)
	}
}
