"""The paper's method: canvases, hiding, orders, policies and likelihoods. It knows no network and no file."""
