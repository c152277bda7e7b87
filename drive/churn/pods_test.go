package churn

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestScaleUpIsSeen scales a Service up. The two watches are not synchronised:
// either may report the new pod first, or only one may report it before the
// change is over.
func TestScaleUpIsSeen(t *testing.T) {
	const address = "240.0.0.9"
	labels := map[string]string{population.Label: population.LabelValue, population.AppLabel: "svc-0", discoveryv1.LabelServiceName: "svc-0"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "svc-0-x", Namespace: "mm-0", Labels: labels}, Status: corev1.PodStatus{PodIP: address}}
	slice := func(addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "svc-0-y", Namespace: "mm-0", Labels: labels}, Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}}}
	}
	for _, tt := range []struct{ name, order string }{{"pod first", "ps"}, {"EndpointSlice first", "sp"}, {"EndpointSlice alone", "s"}} {
		t.Run(tt.name, func(t *testing.T) {
			w := &watcher{pods: map[string]map[string]*corev1.Pod{}, slices: map[string]map[string][]string{}, waiters: map[string][]*waiter{}}
			w.slice(slice("240.0.0.1"), false)
			server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				for _, which := range tt.order {
					if which == 'p' {
						w.pod(pod, false)
					} else {
						w.slice(slice("240.0.0.1", address), false)
					}
				}
				answer.Header().Set("Content-Type", "application/json")
				fmt.Fprint(answer, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"svc-0","namespace":"mm-0"}}`)
			}))
			defer server.Close()
			sizes := population.Sizes{Namespaces: 1, Services: 1, EndpointsPerService: 1}
			plan, err := NewPlan(Spec{Trial: "t", Kind: KindEndpointsScale, Arrival: ArrivalUniform, Shape: rate(1), Count: 1, Population: sizes})
			must.OK(t, err)
			d, err := NewDriver(&rest.Config{Host: server.URL, QPS: -1}, plan)
			must.OK(t, err)
			d.watch = w
			var announced []record.Marker
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e := d.events(time.Now())[0]
			d.podChange(ctx, &plan.Changes[0], &e, make(chan struct{}, 1), func(_ context.Context, m []record.Marker) error {
				announced = append(announced, m...)
				return nil
			})
			if e.Error != "" || e.CommittedNS < e.SentNS || e.CommittedNS == 0 || ctx.Err() != nil {
				t.Errorf("%+v, %v", e, ctx.Err())
			}
			if len(announced) != 1 || announced[0].Text != address || announced[0].Gone || len(e.Markers) != 1 {
				t.Errorf("announced %+v", announced)
			}
		})
	}
}
