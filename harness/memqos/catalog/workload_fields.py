"""The fields of the objects that make pods, as data: in the form of `pod_fields`, whose types they use.

The union over the releases 1.22 to 1.37. Source: Kubernetes API reference, apps/v1, batch/v1, core/v1.
"""

from __future__ import annotations

__all__ = ["WORKLOAD_FIELDS"]

WORKLOAD_FIELDS = """
PodTemplate: apiVersion string, kind string, metadata ObjectMeta, template PodTemplateSpec
PodTemplateSpec: metadata ObjectMeta, spec PodSpec

Deployment: apiVersion string, kind string, metadata ObjectMeta, spec DeploymentSpec, status any
DeploymentSpec: minReadySeconds int, paused bool, progressDeadlineSeconds int, replicas int, revisionHistoryLimit int,
  selector LabelSelector, strategy UpdateStrategy, template PodTemplateSpec
UpdateStrategy: rollingUpdate RollingUpdate, type string
RollingUpdate: maxSurge intOrString, maxUnavailable intOrString

ReplicaSet: apiVersion string, kind string, metadata ObjectMeta, spec ReplicaSetSpec, status any
ReplicaSetSpec: minReadySeconds int, replicas int, selector LabelSelector, template PodTemplateSpec

ReplicationController: apiVersion string, kind string, metadata ObjectMeta, spec ReplicationControllerSpec, status any
ReplicationControllerSpec: minReadySeconds int, replicas int, selector map[string], template PodTemplateSpec

StatefulSet: apiVersion string, kind string, metadata ObjectMeta, spec StatefulSetSpec, status any
StatefulSetSpec: minReadySeconds int, ordinals StatefulSetOrdinals, persistentVolumeClaimRetentionPolicy ClaimRetention,
  podManagementPolicy string, replicas int, revisionHistoryLimit int, selector LabelSelector, serviceName string,
  template PodTemplateSpec, updateStrategy StatefulSetUpdateStrategy, volumeClaimTemplates []object
StatefulSetOrdinals: start int
ClaimRetention: whenDeleted string, whenScaled string
StatefulSetUpdateStrategy: rollingUpdate RollingUpdateOfStatefulSet, type string
RollingUpdateOfStatefulSet: maxUnavailable intOrString, partition int

DaemonSet: apiVersion string, kind string, metadata ObjectMeta, spec DaemonSetSpec, status any
DaemonSetSpec: minReadySeconds int, revisionHistoryLimit int, selector LabelSelector, template PodTemplateSpec,
  updateStrategy UpdateStrategy

Job: apiVersion string, kind string, metadata ObjectMeta, spec JobSpec, status any
JobSpec: activeDeadlineSeconds int, backoffLimit int, backoffLimitPerIndex int, completionMode string, completions int,
  managedBy string, manualSelector bool, maxFailedIndexes int, parallelism int, podFailurePolicy object,
  podReplacementPolicy string, scheduling object, selector LabelSelector, successPolicy object, suspend bool,
  template PodTemplateSpec, ttlSecondsAfterFinished int

CronJob: apiVersion string, kind string, metadata ObjectMeta, spec CronJobSpec, status any
CronJobSpec: concurrencyPolicy string, failedJobsHistoryLimit int, jobTemplate JobTemplateSpec, schedule string,
  startingDeadlineSeconds int, successfulJobsHistoryLimit int, suspend bool, timeZone string
JobTemplateSpec: metadata ObjectMeta, spec JobSpec
"""
