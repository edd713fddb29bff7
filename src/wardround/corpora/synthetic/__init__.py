"""Hospitals that never existed: clinical text written from a seed, by rules, about nobody."""

from wardround.corpora.synthetic.clinical import (
    CLINICAL_TYPES,
    ClinicalConfig,
    ManyHospitals,
    SitePlan,
    clinical_hospitals,
    many_hospitals,
)
from wardround.corpora.synthetic.phi import PHI_TYPES, PhiConfig, phi_hospitals
from wardround.corpora.synthetic.site import Splits, SyntheticSite

__all__ = [
    "CLINICAL_TYPES",
    "PHI_TYPES",
    "ClinicalConfig",
    "ManyHospitals",
    "PhiConfig",
    "SitePlan",
    "Splits",
    "SyntheticSite",
    "clinical_hospitals",
    "many_hospitals",
    "phi_hospitals",
]
