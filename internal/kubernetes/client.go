package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// Client is an [Interface] to a real API server.
type Client struct {
	groups     map[schema.GroupVersion]rest.Interface
	parameters runtime.ParameterCodec
}

var _ Interface = (*Client)(nil)

// NewForConfig returns a client whose groups share connections. It does not limit its requests.
func NewForConfig(config *rest.Config) (*Client, error) {
	shared := rest.CopyConfig(config)
	if shared.UserAgent == "" {
		shared.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	shared.QPS = -1
	http, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, err
	}
	types := newScheme()
	c := &Client{groups: map[schema.GroupVersion]rest.Interface{}, parameters: runtime.NewParameterCodec(types)}
	codecs := rest.CodecFactoryForGeneratedClient(types, serializer.NewCodecFactory(types)).WithoutConversion()
	for _, group := range []schema.GroupVersion{corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion,
		admissionv1.SchemeGroupVersion, autoscalingv2.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		own := *shared
		own.GroupVersion, own.NegotiatedSerializer, own.APIPath = &group, codecs, "/apis"
		if group.Group == "" {
			own.APIPath = "/api"
		}
		if c.groups[group], err = rest.RESTClientForConfigAndClient(&own, http); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newScheme registers the types that are sent and received.
func newScheme() *runtime.Scheme {
	types := runtime.NewScheme()
	metav1.AddToGroupVersion(types, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, admissionv1.AddToScheme,
		autoscalingv2.AddToScheme, authorizationv1.AddToScheme, authenticationv1.AddToScheme} {
		utilruntime.Must(add(types))
	}
	return types
}

type object[T any] interface {
	*T
	runtime.Object
}

// objects returns the client of a resource.
func objects[T, L any, PT object[T], PL object[L]](c *Client, group schema.GroupVersion, name, namespace string) *resource[PT, PL] {
	return &resource[PT, PL]{name: name, namespace: namespace, rest: c.groups[group], parameters: c.parameters,
		newObject: func() PT { return new(T) }, newList: func() PL { return new(L) }}
}

// CoreV1 implements [Interface].
func (c *Client) CoreV1() CoreV1 { return core{c} }

// AppsV1 implements [Interface].
func (c *Client) AppsV1() AppsV1 { return apps{c} }

// DiscoveryV1 implements [Interface].
func (c *Client) DiscoveryV1() DiscoveryV1 { return discovery{c} }

// AdmissionregistrationV1 implements [Interface].
func (c *Client) AdmissionregistrationV1() AdmissionregistrationV1 { return admission{c} }

// AutoscalingV2 implements [Interface].
func (c *Client) AutoscalingV2() AutoscalingV2 { return autoscaling{c} }

// AuthorizationV1 implements [Interface].
func (c *Client) AuthorizationV1() AuthorizationV1 { return authorization{c} }

// Discovery implements [Interface].
func (c *Client) Discovery() Discovery { return server{c.groups[corev1.SchemeGroupVersion]} }

type core struct{ c *Client }

func (g core) RESTClient() rest.Interface { return g.c.groups[corev1.SchemeGroupVersion] }

func (g core) ConfigMaps(namespace string) ConfigMaps {
	return objects[corev1.ConfigMap, corev1.ConfigMapList](g.c, corev1.SchemeGroupVersion, "configmaps", namespace)
}

func (g core) Namespaces() Namespaces {
	return objects[corev1.Namespace, corev1.NamespaceList](g.c, corev1.SchemeGroupVersion, "namespaces", "")
}

func (g core) Events(namespace string) Events {
	return objects[corev1.Event, corev1.EventList](g.c, corev1.SchemeGroupVersion, "events", namespace)
}

func (g core) Nodes() Nodes {
	return objects[corev1.Node, corev1.NodeList](g.c, corev1.SchemeGroupVersion, "nodes", "")
}

func (g core) Secrets(namespace string) Secrets {
	return objects[corev1.Secret, corev1.SecretList](g.c, corev1.SchemeGroupVersion, "secrets", namespace)
}

func (g core) Services(namespace string) Services {
	return objects[corev1.Service, corev1.ServiceList](g.c, corev1.SchemeGroupVersion, "services", namespace)
}

func (g core) Pods(namespace string) Pods {
	return pods{objects[corev1.Pod, corev1.PodList](g.c, corev1.SchemeGroupVersion, "pods", namespace)}
}

type pods struct {
	*resource[*corev1.Pod, *corev1.PodList]
}

func (p pods) GetLogs(name string, opts *corev1.PodLogOptions) *rest.Request {
	return p.rest.Get().Namespace(p.namespace).Resource(p.name).Name(name).SubResource("log").VersionedParams(opts, p.parameters)
}

func (g core) ServiceAccounts(namespace string) ServiceAccounts { return serviceAccounts{g, namespace} }

type serviceAccounts struct {
	core
	namespace string
}

func (s serviceAccounts) CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	answer := &authenticationv1.TokenRequest{}
	err := s.RESTClient().Post().UseProtobufAsDefault().Namespace(s.namespace).Resource("serviceaccounts").Name(name).SubResource("token").
		VersionedParams(&opts, s.c.parameters).Body(request).Do(ctx).Into(answer)
	return answer, err
}

type apps struct{ c *Client }

func (g apps) DaemonSets(namespace string) DaemonSets {
	return objects[appsv1.DaemonSet, appsv1.DaemonSetList](g.c, appsv1.SchemeGroupVersion, "daemonsets", namespace)
}

func (g apps) Deployments(namespace string) Deployments {
	return objects[appsv1.Deployment, appsv1.DeploymentList](g.c, appsv1.SchemeGroupVersion, "deployments", namespace)
}

func (g apps) ReplicaSets(namespace string) ReplicaSets {
	return objects[appsv1.ReplicaSet, appsv1.ReplicaSetList](g.c, appsv1.SchemeGroupVersion, "replicasets", namespace)
}

type discovery struct{ c *Client }

func (g discovery) EndpointSlices(namespace string) EndpointSlices {
	return objects[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](g.c, discoveryv1.SchemeGroupVersion, "endpointslices", namespace)
}

type admission struct{ c *Client }

func (g admission) MutatingWebhookConfigurations() MutatingWebhooks {
	return objects[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](g.c, admissionv1.SchemeGroupVersion,
		"mutatingwebhookconfigurations", "")
}

type autoscaling struct{ c *Client }

func (g autoscaling) HorizontalPodAutoscalers(namespace string) Autoscalers {
	return objects[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](g.c, autoscalingv2.SchemeGroupVersion,
		"horizontalpodautoscalers", namespace)
}

type authorization struct{ c *Client }

func (g authorization) SelfSubjectAccessReviews() AccessReviews {
	return accessReviews(g)
}

type accessReviews struct{ c *Client }

func (r accessReviews) Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	answer := &authorizationv1.SelfSubjectAccessReview{}
	return answer, r.c.groups[authorizationv1.SchemeGroupVersion].Post().UseProtobufAsDefault().Resource("selfsubjectaccessreviews").
		VersionedParams(&opts, r.c.parameters).Body(review).Do(ctx).Into(answer)
}

// server asks an API server about itself.
type server struct{ rest rest.Interface }

func (s server) ServerVersion(ctx context.Context) (*version.Info, error) {
	result := s.rest.Get().AbsPath("/version").Do(ctx)
	answer, err := result.Raw()
	if err != nil {
		return nil, result.Error() // contains the server's own message
	}
	info := &version.Info{}
	if err := json.Unmarshal(answer, info); err != nil {
		return nil, fmt.Errorf("version of the API server: %w", err)
	}
	return info, nil
}

func (s server) ServerResourcesForGroupVersion(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	path := "/apis/" + groupVersion
	if groupVersion == "v1" {
		path = "/api/v1"
	}
	answer := &metav1.APIResourceList{}
	return answer, s.rest.Get().AbsPath(path).Do(ctx).Into(answer)
}
