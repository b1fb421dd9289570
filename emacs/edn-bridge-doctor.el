;;; edn-bridge-doctor.el --- What is wrong, and what to do  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Looks at all that the package needs and says in a buffer what it found.

;;; Code:

(require 'edn-bridge-chat)
(require 'edn-bridge-rpc)
(require 'edn-bridge-view)

(defun edn-bridge-doctor--line (good text)
  "Insert TEXT as a finding that is GOOD: t, nil, or `note'."
  (insert (pcase good
            ('note (propertize "  note  " 'face 'edn-bridge-muted))
            ('nil (propertize "  FAIL  " 'face 'edn-bridge-error))
            (_ (propertize "  ok    " 'face 'edn-bridge-success)))
          text "\n"))

;;;###autoload
(defun edn-bridge-doctor ()
  "Show what this package found of what it needs, and what to do."
  (interactive)
  (let ((directory default-directory)
        (buffer (get-buffer-create "*edn-bridge doctor*")))
    (with-current-buffer buffer
      (edn-bridge-page-mode)
      (setq default-directory directory)
      (setq-local revert-buffer-function #'edn-bridge-doctor--look)
      (edn-bridge-doctor--look))
    (pop-to-buffer buffer)))

(defun edn-bridge-doctor--look (&rest _)
  "Look at all that the package needs, and show it in this buffer."
  (let ((inhibit-read-only t))
    (erase-buffer)
    (insert "edn-bridge doctor\n\n")
    (edn-bridge-doctor--emacs)
    (when (edn-bridge-doctor--program)
      (edn-bridge-doctor--handshake)
      (edn-bridge-doctor--ask-program))
    ;; A long line goes on below its text.
    (put-text-property (point-min) (point-max) 'wrap-prefix "        "))
  (goto-char (point-min)))

(defun edn-bridge-doctor--emacs ()
  "Look at Emacs."
  (edn-bridge-doctor--line (version<= "28.1" emacs-version)
                           (format "Emacs %s (28.1 or later is needed)"
                                   emacs-version))
  (edn-bridge-doctor--line
   (if (>= read-process-output-max 65536) t 'note)
   (format "`read-process-output-max' is %d%s" read-process-output-max
           (if (>= read-process-output-max 65536)
               ""
             "; (setq read-process-output-max 65536) makes long outputs faster")))
  (when (edn-bridge-doctor--interpreted-p)
    (edn-bridge-doctor--line
     'note
     (format "The package is not byte-compiled; (byte-recompile-directory %S 0) makes it faster"
             edn-bridge-program--package)))
  (edn-bridge-doctor--line
   'note
   (if (locate-library "markdown-mode")
       "markdown-mode is there: it names the modes of code blocks"
     "markdown-mode is not there; `edn-bridge-markdown-languages' is used")))

(defun edn-bridge-doctor--interpreted-p ()
  "Return non-nil if the package runs from its source."
  (let ((function (symbol-function 'edn-bridge-rpc-request)))
    (not (or (byte-code-function-p function)
             (subrp function)))))

(defun edn-bridge-doctor--program ()
  "Look for the program; return non-nil if it is there."
  (let ((program (edn-bridge-program-find)))
    (if program
        (edn-bridge-doctor--line t (format "The program is %s" program))
      (edn-bridge-doctor--line
       nil
       (format "The program %s was not found%s.  Build it by M-x edn-bridge-build, or set `edn-bridge-program' to its file"
               edn-bridge-program
               (if (file-remote-p default-directory)
                   (format " on %s" (file-remote-p default-directory))
                 ""))))
    program))

(defun edn-bridge-doctor--handshake ()
  "Start a bridge and shake hands with it."
  (let* ((start (float-time))
         (ended nil)
         (conn (condition-case err
                   (edn-bridge-rpc-connect
                    :name "edn-bridge-doctor"
                    :command (apply #'edn-bridge-program-command
                                    "serve" edn-bridge-program-args)
                    :features '("interactor")
                    :on-close (lambda (_conn reason) (setq ended reason)))
                 (error (setq ended (error-message-string err))
                        nil))))
    (while (and conn (not ended)
                (not (edn-bridge-rpc-ready-p conn))
                (< (- (float-time) start) 10))
      (accept-process-output nil 0.02))
    (cond
     ((and conn (edn-bridge-rpc-ready-p conn))
      (edn-bridge-doctor--line
       t (format "Handshake in %.0f ms: protocol %s, features %s, model %s"
                 (* 1000 (- (float-time) start))
                 (plist-get (edn-bridge-rpc-connection-server conn)
                            :protocol-version)
                 (string-join (edn-bridge-rpc-connection-features conn) ", ")
                 (or (plist-get (edn-bridge-rpc-connection-server conn)
                                :model-id)
                     "none")))
      (edn-bridge-rpc-close conn))
     (t
      (edn-bridge-doctor--line
       nil (format "No handshake: %s%s" (or ended "no answer within 10 s")
                   (if conn
                       (concat "\n" (edn-bridge-rpc-stderr conn))
                     "")))
      (when conn
        (edn-bridge-rpc-close conn))))
    (when conn
      (edn-bridge-rpc-forget conn))))

(defun edn-bridge-doctor--ask-program ()
  "Insert what the program's own doctor says."
  (insert "\n")
  (let ((start (point)))
    (condition-case err
        (apply #'process-file (car (edn-bridge-program-command)) nil t nil
               "doctor" edn-bridge-program-args)
      (error (insert (error-message-string err) "\n")))
    (goto-char (point-max))
    (when (= start (point))
      (insert "(The program's own doctor said nothing.)\n"))))

(provide 'edn-bridge-doctor)

;;; edn-bridge-doctor.el ends here
