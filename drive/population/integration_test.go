//go:build integration

package population_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestEnsure goes through sizes, each from the previous one, and checks what
// the cluster's controllers created.
func TestEnsure(t *testing.T) {
	config := labtest.Start(t).RESTConfig()
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	ours := metav1.ListOptions{LabelSelector: population.Label + "=" + population.LabelValue}
	kept := "" // a pod that stays if its Service stays
	for i, s := range []population.Sizes{
		{Namespaces: 2, Services: 10, EndpointsPerService: 2, Proxies: 30, Gateways: 2, ServiceEntries: 3, VirtualServices: 3, DestinationRules: 3, GatewayResources: 2, AuthorizationPolicies: 2},
		{Namespaces: 3, Services: 20, EndpointsPerService: 3, Proxies: 60, VirtualServices: 1, GatewayResources: 2},
		{Namespaces: 3, Services: 20, EndpointsPerService: 2, Proxies: 5, ServiceEntries: 2, ServiceEntry: population.ServiceEntryOptions{Host: "httpbin.org"}, DummyNamespace: "istio-system"},
		{Namespaces: 3, Services: 20, Proxies: 5}, // Services that select nothing
		{},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		ids, err := population.Ensure(ctx, config, s)
		must.OK(t, err)
		t.Logf("%+v: %.1f s", s, time.Since(began).Seconds())
		pods, err := kube.CoreV1().Pods("").List(ctx, ours)
		must.OK(t, err)
		if want := max(s.Services*s.EndpointsPerService, s.Proxies) + s.Gateways; len(pods.Items) != want || len(ids) != s.Proxies+s.Gateways {
			t.Errorf("%d pods, want %d; %d identities", len(pods.Items), want, len(ids))
		}
		node := map[string]string{}
		for _, pod := range pods.Items {
			node[pod.Status.PodIP] = pod.Spec.NodeName
			if len(pod.Spec.Containers) != 1 || len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].Kind != "ReplicaSet" {
				t.Errorf("pod %s: %d containers, owners %+v", pod.Name, len(pod.Spec.Containers), pod.OwnerReferences)
			}
		}
		for _, id := range ids {
			if node[id.IP] != id.Node || id.Node == "" {
				t.Errorf("identity %+v is on node %q", id, node[id.IP])
			}
		}
		services, err := kube.CoreV1().Services("").List(ctx, ours)
		must.OK(t, err)
		if want := s.Services + min(s.Gateways, 1); len(services.Items) != want {
			t.Errorf("%d Services, want %d", len(services.Items), want)
		}
		switch i {
		case 0:
			kept = ids[0].IP
		case 1:
			if node[kept] == "" {
				t.Errorf("the pod with address %s did not stay", kept)
			}
		}
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), ours)
	if err != nil || len(nodes.Items) != 0 {
		t.Errorf("%d simulated nodes are left: %v", len(nodes.Items), err)
	}
}
