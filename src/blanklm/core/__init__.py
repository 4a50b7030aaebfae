"""The paper's method: canvases, hiding, orders, and likelihoods. It knows no network and no file.

Where the paper's equations are:
  Eq. 1-4      p(b, w, l, r | c) and its three parts      models/blm.py
  Eq. 5        the likelihood, a sum over orders          core/likelihood.py, ``exact``
  Eq. 6        its lower bound                            core/likelihood.py, ``bound``
  Eq. 7        all next actions of a canvas at once       core/orders.py, ``show_first`` and ``UniformOrders``
  Eq. 8        the loss                                   core/orders.py, ``bound``
"""
