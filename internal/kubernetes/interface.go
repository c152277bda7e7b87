// Package kubernetes has typed clients for the few parts of the Kubernetes API that
// this program uses. They use client-go's REST client with a scheme of their own:
// client-go's ready-made clients register every group of the API in every version, a
// sixth of the binary and of each process's startup memory.
package kubernetes

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Interface is a client of a cluster, with the API's groups under client-go's names.
type Interface interface {
	CoreV1() CoreV1
	AppsV1() AppsV1
	DiscoveryV1() DiscoveryV1
	AdmissionregistrationV1() AdmissionregistrationV1
	AutoscalingV2() AutoscalingV2
	AuthorizationV1() AuthorizationV1
	Discovery() Discovery
}

// Objects are the operations on the objects of a resource, in one namespace or, if
// that is "", in all.
type Objects[T, L any] interface {
	Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, how types.PatchType, patch []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Collection adds deletion of several objects together.
type Collection[T, L any] interface {
	Objects[T, L]
	DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, of metav1.ListOptions) error
}

// The resources in use.
type (
	ConfigMaps       = Collection[*corev1.ConfigMap, *corev1.ConfigMapList]
	Events           = Collection[*corev1.Event, *corev1.EventList]
	Namespaces       = Objects[*corev1.Namespace, *corev1.NamespaceList]
	Nodes            = Collection[*corev1.Node, *corev1.NodeList]
	Secrets          = Collection[*corev1.Secret, *corev1.SecretList]
	Services         = Objects[*corev1.Service, *corev1.ServiceList]
	DaemonSets       = Collection[*appsv1.DaemonSet, *appsv1.DaemonSetList]
	Deployments      = Collection[*appsv1.Deployment, *appsv1.DeploymentList]
	ReplicaSets      = Collection[*appsv1.ReplicaSet, *appsv1.ReplicaSetList]
	EndpointSlices   = Collection[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	MutatingWebhooks = Collection[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList]
	Autoscalers      = Collection[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2.HorizontalPodAutoscalerList]
)

// Pods also have logs.
type Pods interface {
	Collection[*corev1.Pod, *corev1.PodList]
	GetLogs(name string, opts *corev1.PodLogOptions) *rest.Request
}

// ServiceAccounts also issue tokens.
type ServiceAccounts interface {
	CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// AccessReviews report what the user may do.
type AccessReviews interface {
	Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error)
}

// CoreV1 is the core group.
type CoreV1 interface {
	ConfigMaps(namespace string) ConfigMaps
	Events(namespace string) Events
	Namespaces() Namespaces
	Nodes() Nodes
	Pods(namespace string) Pods
	Secrets(namespace string) Secrets
	ServiceAccounts(namespace string) ServiceAccounts
	Services(namespace string) Services
	RESTClient() rest.Interface
}

// AppsV1 is the group apps.
type AppsV1 interface {
	DaemonSets(namespace string) DaemonSets
	Deployments(namespace string) Deployments
	ReplicaSets(namespace string) ReplicaSets
}

// DiscoveryV1 is the group discovery.k8s.io.
type DiscoveryV1 interface {
	EndpointSlices(namespace string) EndpointSlices
}

// AdmissionregistrationV1 is the group admissionregistration.k8s.io.
type AdmissionregistrationV1 interface {
	MutatingWebhookConfigurations() MutatingWebhooks
}

// AutoscalingV2 is the group autoscaling.
type AutoscalingV2 interface {
	HorizontalPodAutoscalers(namespace string) Autoscalers
}

// AuthorizationV1 is the group authorization.k8s.io.
type AuthorizationV1 interface {
	SelfSubjectAccessReviews() AccessReviews
}

// Discovery describes a cluster's API server and what it serves.
type Discovery interface {
	ServerVersion(ctx context.Context) (*version.Info, error)
	ServerResourcesForGroupVersion(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}
