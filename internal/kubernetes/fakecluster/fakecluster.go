// Package fakecluster provides client-go's fake cluster to tests of code that
// uses one. It imports every group of the API, so no program may import it.
package fakecluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	upstream "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/fake"
	admission "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	apps "k8s.io/client-go/kubernetes/typed/apps/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	autoscaling "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// Cluster is a cluster in memory: objects without controllers.
type Cluster struct{ *fake.Clientset }

var _ kubernetes.Interface = Cluster{}

// New returns a cluster that contains the objects.
func New(objects ...runtime.Object) Cluster { return Cluster{fake.NewClientset(objects...)} }

type coreV1 struct{ core.CoreV1Interface }

func (c Cluster) CoreV1() kubernetes.CoreV1 { return coreV1{c.Clientset.CoreV1()} }

func (g coreV1) ConfigMaps(namespace string) kubernetes.ConfigMaps {
	return g.CoreV1Interface.ConfigMaps(namespace)
}
func (g coreV1) Events(namespace string) kubernetes.Events {
	return g.CoreV1Interface.Events(namespace)
}
func (g coreV1) Namespaces() kubernetes.Namespaces     { return g.CoreV1Interface.Namespaces() }
func (g coreV1) Nodes() kubernetes.Nodes               { return g.CoreV1Interface.Nodes() }
func (g coreV1) Pods(namespace string) kubernetes.Pods { return g.CoreV1Interface.Pods(namespace) }
func (g coreV1) Secrets(namespace string) kubernetes.Secrets {
	return g.CoreV1Interface.Secrets(namespace)
}
func (g coreV1) Services(namespace string) kubernetes.Services {
	return g.CoreV1Interface.Services(namespace)
}
func (g coreV1) ServiceAccounts(namespace string) kubernetes.ServiceAccounts {
	return g.CoreV1Interface.ServiceAccounts(namespace)
}

type appsV1 struct{ apps.AppsV1Interface }

func (c Cluster) AppsV1() kubernetes.AppsV1 { return appsV1{c.Clientset.AppsV1()} }

func (g appsV1) DaemonSets(namespace string) kubernetes.DaemonSets {
	return g.AppsV1Interface.DaemonSets(namespace)
}
func (g appsV1) Deployments(namespace string) kubernetes.Deployments {
	return g.AppsV1Interface.Deployments(namespace)
}

func (g appsV1) ReplicaSets(namespace string) kubernetes.ReplicaSets {
	return g.AppsV1Interface.ReplicaSets(namespace)
}

type discoveryV1 struct{ discovery.DiscoveryV1Interface }

func (c Cluster) DiscoveryV1() kubernetes.DiscoveryV1 { return discoveryV1{c.Clientset.DiscoveryV1()} }

func (g discoveryV1) EndpointSlices(namespace string) kubernetes.EndpointSlices {
	return g.DiscoveryV1Interface.EndpointSlices(namespace)
}

type admissionV1 struct {
	admission.AdmissionregistrationV1Interface
}

func (c Cluster) AdmissionregistrationV1() kubernetes.AdmissionregistrationV1 {
	return admissionV1{c.Clientset.AdmissionregistrationV1()}
}

func (g admissionV1) MutatingWebhookConfigurations() kubernetes.MutatingWebhooks {
	return g.AdmissionregistrationV1Interface.MutatingWebhookConfigurations()
}

type autoscalingV2 struct {
	autoscaling.AutoscalingV2Interface
}

func (c Cluster) AutoscalingV2() kubernetes.AutoscalingV2 {
	return autoscalingV2{c.Clientset.AutoscalingV2()}
}

func (g autoscalingV2) HorizontalPodAutoscalers(namespace string) kubernetes.Autoscalers {
	return g.AutoscalingV2Interface.HorizontalPodAutoscalers(namespace)
}

type authorizationV1 struct {
	authorization.AuthorizationV1Interface
}

func (c Cluster) AuthorizationV1() kubernetes.AuthorizationV1 {
	return authorizationV1{c.Clientset.AuthorizationV1()}
}

func (g authorizationV1) SelfSubjectAccessReviews() kubernetes.AccessReviews {
	return g.AuthorizationV1Interface.SelfSubjectAccessReviews()
}

type server struct{ upstream.DiscoveryInterface }

func (c Cluster) Discovery() kubernetes.Discovery { return server{c.Clientset.Discovery()} }

func (s server) ServerVersion(context.Context) (*version.Info, error) {
	return s.DiscoveryInterface.ServerVersion()
}

func (s server) ServerResourcesForGroupVersion(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	return s.DiscoveryInterface.ServerResourcesForGroupVersion(groupVersion)
}
