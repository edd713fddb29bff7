"""What gives a trained model to other software: the REST service, ONNX folders, the spaCy component, the pipeline."""
