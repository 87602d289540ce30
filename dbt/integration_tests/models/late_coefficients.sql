{{ tuskml.model_summary(ref('late_models'), keys='carrier', names=['dep_delay', 'distance', 'hour']) }}
