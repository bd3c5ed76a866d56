{{/*
One service: account, configuration, Deployment, and what its kind needs beside. Each file of this folder calls it with what is
particular to its service:

  name     of the verb
  store    whether it is over PostgreSQL
  keyless  whether it reads nothing of it that is secret, so that it is not given the key
  tls      whether it has a certificate
  cluster  whether it speaks to this cluster's API; what it may do is the template `NAME.rules`
  state    whether what it keeps on disk outlives its pod
  ports    name: number, of its Service
  args     beside the configuration

Its configuration is the template `NAME.toml`.
*/}}
{{- define "pilothouse.component" }}
{{- $root := .root }}{{ $name := .name }}
{{- $values := get $root.Values.components $name }}
{{- if $values.enabled }}
{{- $config := include (printf "%s.toml" $name) $root }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
automountServiceAccountToken: {{ .cluster | default false }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
data:
  {{ $name }}.toml: | {{- $config | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  {{- if .state }}
  # Its files are used by one at a time.
  strategy: { type: Recreate }
  {{- end }}
  selector:
    matchLabels: {{- include "pilothouse.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "pilothouse.labels" . | nindent 8 }}
      annotations:
        # A changed configuration is a changed pod.
        pilothouse.dev/configuration: {{ $config | sha256sum }}
    spec:
      serviceAccountName: {{ $name }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile: { type: RuntimeDefault }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "pilothouse.selector" . | nindent 14 }}
      terminationGracePeriodSeconds: 60
      containers:
        - name: {{ $name }}
          image: {{ $root.Values.image }}
          args: [{{ $name }}, --config, /etc/pilothouse/{{ $name }}.toml{{ range .args }}, {{ . }}{{ end }}]
          env:
            - name: POD_NAME
              valueFrom: { fieldRef: { fieldPath: metadata.name } }
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          resources: {{- toYaml $root.Values.resources | nindent 12 }}
          ports:
            - { name: pages, containerPort: 9090 }
            {{- range $port, $number := .ports }}
            - { name: {{ $port }}, containerPort: {{ $number }} }
            {{- end }}
          readinessProbe:
            httpGet: { path: /readyz, port: pages }
            periodSeconds: 5
          livenessProbe:
            httpGet: { path: /livez, port: pages }
            periodSeconds: 10
            failureThreshold: 6
          volumeMounts:
            - { name: config, mountPath: /etc/pilothouse }
            {{- if .tls }}
            - { name: tls, mountPath: /etc/pilothouse-tls }
            {{- end }}
            {{- if .store }}
            - { name: store, mountPath: /etc/pilothouse-store }
            {{- end }}
            {{- if .state }}
            - { name: state, mountPath: /var/lib/pilothouse }
            {{- end }}
      volumes:
        - name: config
          configMap: { name: {{ $name }} }
        {{- if .tls }}
        - name: tls
          secret: { secretName: {{ $name }}-tls, defaultMode: 0440 }
        {{- end }}
        {{- if .store }}
        - name: store
          secret:
            secretName: {{ $root.Values.store.secret }}
            defaultMode: 0440
            {{- if .keyless }}
            items: [{ key: password, path: password }]
            {{- end }}
        {{- end }}
        {{- if .state }}
        - name: state
          persistentVolumeClaim: { claimName: {{ $name }} }
        {{- end }}
{{- if .state }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
spec:
  accessModes: [ReadWriteOnce]
  resources: { requests: { storage: 1Gi } }
{{- end }}
{{- if .ports }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
spec:
  {{- if eq $name "gateway" }}
  type: {{ $root.Values.gatewayService.type }}
  # Whose address the client has is part of who may come in.
  {{- if ne $root.Values.gatewayService.type "ClusterIP" }}
  externalTrafficPolicy: Local
  {{- end }}
  {{- end }}
  selector: {{- include "pilothouse.selector" . | nindent 4 }}
  ports:
    {{- range $port, $number := .ports }}
    - { name: {{ $port }}, port: {{ $number }}, targetPort: {{ $port }} }
    {{- end }}
{{- end }}
{{- if gt (int $values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "pilothouse.selector" . | nindent 6 }}
{{- end }}
{{- if .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: pilothouse-{{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
rules: {{- include (printf "%s.rules" $name) $root | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: pilothouse-{{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pilothouse-{{ $name }} }
subjects:
  - { kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }} }
{{- end }}
{{- if and .tls $root.Values.certificates.issuer }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  labels: {{- include "pilothouse.labels" . | nindent 4 }}
spec:
  secretName: {{ $name }}-tls
  commonName: {{ include "pilothouse.identity" . }}
  dnsNames: [{{ $name }}, {{ $name }}.{{ $root.Release.Namespace }}.svc]
  usages: [server auth, client auth]
  privateKey: { algorithm: ECDSA, size: 256, rotationPolicy: Always }
  issuerRef: { name: {{ $root.Values.certificates.issuer }}, kind: {{ $root.Values.certificates.issuerKind }} }
{{- end }}
---
{{- end }}
{{- end }}

{{- define "pilothouse.labels" -}}
{{ include "pilothouse.selector" . }}
app.kubernetes.io/part-of: pilothouse
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "pilothouse.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* The name by which others know a service. The broker knows Maestro's server as `maestro`, and an agent by its management cluster. */}}
{{- define "pilothouse.identity" -}}
{{ if eq .name "maestro-agent" }}{{ .root.Values.consumer }}{{ else if eq .name "maestro-server" }}maestro{{ else }}{{ .name }}{{ end }}
{{- end }}

{{/* The beginning of every configuration over PostgreSQL. Called with the schema, and whether it goes without the key. */}}
{{- define "pilothouse.store" -}}
{{ $store := .root.Values.store -}}
store = "postgres://{{ $store.user }}@{{ required "store.host: where PostgreSQL is" $store.host }}/{{ $store.database }}?schema={{ .schema }}"
store_password_file = "/etc/pilothouse-store/password"
{{- if not .keyless }}
store_key_file = "/etc/pilothouse-store/key"
{{- end }}
{{- end }}

{{/* Health, metrics and debug pages: in the clear, and let through to nobody but monitoring, see pages.yaml. */}}
{{- define "pilothouse.pages" -}}
[metrics]
address = "0.0.0.0:9090"
exposure = "plain_behind_trusted_proxy"
{{- end }}

{{/* Another service, as a client with a certificate reaches it. Called with its URL. */}}
{{- define "pilothouse.peer" -}}
url = "{{ . }}"
authorities = "/etc/pilothouse-tls/ca.crt"
certificate = "/etc/pilothouse-tls/tls.crt"
key = "/etc/pilothouse-tls/tls.key"
{{- end }}

{{/* A listener for callers by the names of their certificates. Called with its port and them. */}}
{{- define "pilothouse.listener" -}}
address = "0.0.0.0:{{ .port }}"
exposure = { callers = {{ toJson .callers }} }
tls = { certificate = "/etc/pilothouse-tls/tls.crt", key = "/etc/pilothouse-tls/tls.key", client_authorities = "/etc/pilothouse-tls/ca.crt" }
{{- end }}

{{/* The id of the region's own zone. */}}
{{- define "pilothouse.zone" -}}
/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/region/providers/Microsoft.Network/dnsZones/{{ .Values.baseDomain }}
{{- end }}

{{- define "pilothouse.broker" -}}
host = "{{ required "broker: host:port of the MQTT broker" .Values.broker }}"
tls = { authorities = "/etc/pilothouse-tls/ca.crt", certificate = "/etc/pilothouse-tls/tls.crt", key = "/etc/pilothouse-tls/tls.key" }
{{- end }}
